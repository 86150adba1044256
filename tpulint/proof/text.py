"""A report of `tpulint verify` as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tpulint.proof.results import Compared, Failure, LineState, Report, State, Trace, Verification
from tpulint.report.paint import Paint

_WIDTH = 14


def render(report: Report, paint: Paint) -> str:
    """All targets, and what they add up to."""
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
    if trace.state == "stopped":
        yield f"    the trace stopped: {trace.reason}"


def _failure(failure: Failure, paint: Paint) -> Iterator[str]:
    yield f"  your code raised this ({failure.side}):"
    for frame in failure.frames:
        yield f"    {paint.bold(f'{frame.path}:{frame.line}')} in {frame.function or '<module>'}"
        if frame.code:
            yield f"      {frame.code}"
    first, *rest = failure.message.splitlines() or [""]
    yield f"    {paint.bad(failure.type)}: {first}"
    yield from (f"      {line}" for line in rest)


def _painted(state: State, paint: Paint) -> str:
    styles = {State.SAME: paint.good, State.DIFFERS: paint.bad, State.NOT_RUN: paint.warn}
    return styles[state](str(state))
