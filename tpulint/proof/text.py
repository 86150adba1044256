"""A report of `tpulint verify` as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from tpulint.proof.results import (
    Compared,
    Compiled,
    Failure,
    Frame,
    LineState,
    Report,
    Shapes,
    State,
    Trace,
    Verification,
)
from tpulint.report.paint import Paint

_WIDTH = 14


def render(report: Report, paint: Paint) -> str:
    """The results of all targets, and a summary."""
    blocks = ["\n".join(_block(one, report.device, paint)) for one in report.verifications]
    text = "\n\n".join(blocks) + "\n"
    if len(report.verifications) > 1:
        counts = [
            f"{sum(one.state is state for one in report.verifications)} {state}"
            for state in State
            if any(one.state is state for one in report.verifications)
        ]
        text += f"\n{paint.bold('Targets')}: {', '.join(counts)}\n"
    return text


def _block(one: Verification, device: str, paint: Paint) -> Iterator[str]:
    yield f"{paint.bold(one.target)}: {_painted(one.state, paint)}{f': {one.reason}' if one.reason else ''}"
    if one.operations:
        steps = f"{one.steps} steps; " if one.steps else ""
        fixes = f"{one.fixes} fix{'' if one.fixes == 1 else 'es'}"
        operations = f"{one.operations:,} operations on the {device.upper()}"
        yield f"  {steps}{fixes} applied to a copy; torchax executed {operations}"
    for row in one.compared:
        yield f"  {_row(row, paint)}"
    if one.failure:
        yield from _failure(one.failure, paint)
    if one.trace:
        yield from _trace(one.trace, paint)
    for compiled in one.compiled:
        yield from _compiled(compiled, paint)
    for note in one.notes:
        yield f"  {paint.dim(f'note: {note}')}"


def _row(row: Compared, paint: Paint) -> str:
    counted = f"{row.count:,}"
    numbers = ""
    if row.difference or row.drift:
        numbers = f"  difference {row.difference:.1e}, drift {row.drift:.1e}"
    detail = f"  ({row.detail})" if row.detail else ""
    return f"{row.what:{_WIDTH}} {_painted(row.state, paint):8} {counted:>6}{numbers}{paint.dim(detail)}"


def _trace(trace: Trace, paint: Paint) -> Iterator[str]:
    counts = Counter(line.state for line in trace.lines)
    words = ", ".join(f"{counts[state]} {state}" for state in LineState if counts[state])
    if trace.state == "not run":
        yield f"  abstract trace of the original: {paint.warn('not run')}: {trace.reason}"
        return
    yield f"  abstract trace of the original: {words or 'no line fails, and `check` reports none'}"
    for line in trace.lines:
        styles = {LineState.CONFIRMED: paint.bad, LineState.MISSED: paint.warn}
        state = styles.get(line.state, paint.dim)(f"{line.state!s:11}")
        what = f"{line.hazard}: {line.message}" if line.hazard else line.message
        yield f"    {state} {paint.bold(f'{line.path}:{line.line}')} {line.code or '-'} {what}"
    if trace.shapes is not None:
        yield from _shapes(trace.shapes)
    if trace.state == "stopped":
        yield f"    the trace stopped: {trace.reason}"


def _shapes(shapes: Shapes) -> Iterator[str]:
    extent = "all" if shapes.is_all else "the first"
    words = f"{shapes.count} shapes, for each of which JAX compiles the step"
    if shapes.count == 1:
        words = "one shape, so JAX compiles the step once"
    yield f"  {extent} {shapes.batches} batches of the data loader have {words}: {'; '.join(shapes.shapes)}"


def _compiled(one: Compiled, paint: Paint) -> Iterator[str]:
    chips = f", {one.chips} chips" if one.chips > 1 else ""
    head = (
        f"  {paint.bold(one.topology)} ({one.chip}{chips})" if one.chip else f"  {paint.bold(one.topology)}"
    )
    if one.state != "compiles":
        yield f"{head}: {paint.bad(one.state)}: {one.error}"
        yield from _frames(one.frames, paint)
        return
    batch = f", batch {one.batch}" if one.batch else ""
    yield f"{head}: compiles ({one.what}{batch}; {one.compile_seconds:g} s)"
    memory = asdict(one.memory)
    parts = ", ".join(f"{name} {_size(size)}" for name, size in memory.items() if size)
    words = {True: paint.good("fits"), False: paint.bad("does not fit"), None: "not known whether it fits"}
    share = f" of {_size(one.hbm)} ({one.memory.total / one.hbm:.0%})" if one.hbm else ""
    yield f"    memory of a chip: {_size(one.memory.total)}{share}: {words[one.fits]}; {parts}"
    if one.largest_batch:
        yield f"    largest batch that fits: {one.largest_batch}"
    if one.flops:
        yield (
            f"    {one.flops / 1e9:,.1f} GFLOP, {_size(int(one.bytes_accessed))} accessed,"
            f" {one.seconds * 1e3:,.2f} ms by the compiler's bound"
        )
    for collective in one.collectives:
        yield f"    {collective.count} x {collective.operation}: {_size(collective.bytes)}"


def _size(size: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:.2f} {unit}"
    return f"{size} B"


def _failure(failure: Failure, paint: Paint) -> Iterator[str]:
    yield f"  exception in your code ({failure.side}):"
    yield from _frames(failure.frames, paint)
    first, *rest = failure.message.splitlines() or [""]
    yield f"    {paint.bad(failure.type)}: {first}"
    yield from (f"      {line}" for line in rest)


def _frames(frames: Sequence[Frame], paint: Paint) -> Iterator[str]:
    for frame in frames:
        yield f"    {paint.bold(f'{frame.path}:{frame.line}')} in {frame.function or '<module>'}"
        if frame.code:
            yield f"      {frame.code}"


def _painted(state: State, paint: Paint) -> str:
    styles = {State.SAME: paint.good, State.DIFFERS: paint.bad, State.NOT_RUN: paint.warn}
    return styles[state](str(state))
