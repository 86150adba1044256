"""What verify found: a block of rows for each case, and what they add up to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby

from tpulint.report.paint import Paint
from tpulint.verify.result import Result, State, case_state, case_states

_WIDTHS = (8, 12, 34, 34)


def heading(paint: Paint) -> str:
    """The names of the columns."""
    return paint.dim("  " + _columns("side", "stage", "claimed", "happened") + "  state") + "\n"


def case(results: Sequence[Result], code: str, paint: Paint) -> str:
    """All rows of one case, below its rule and name; what failed is told in full."""
    state = case_state(results)
    seconds = sum(result.seconds for result in results)
    name = f"{results[0].rule}/{results[0].case}"
    lines = [f"{paint.bold(name)} {paint.dim(code)} {_painted(state, paint)} {paint.dim(f'{seconds:.1f} s')}"]
    for result in results:
        if result.state is State.NOT_RUN:
            lines.append(f"  {result.side:{_WIDTHS[0]}}  {result.stage:{_WIDTHS[1]}}  {result.happened}")
            continue
        row = _columns(result.side, result.stage, result.claimed, result.happened)
        lines.append(f"  {row}  {_painted(result.state, paint)}")
        if result.state is State.FAILED:
            lines.append(f"    {paint.bad('claimed')}:  {result.claimed}")
            lines.append(f"    {paint.bad('happened')}: {result.happened}")
        lines += [f"    {paint.dim(f'note: {note}')}" for note in result.notes]
    return "\n".join(lines) + "\n"


def summary(results: Sequence[Result], codes: Mapping[str, str], paint: Paint) -> str:
    """A row for each rule, then how many cases came to which state."""
    states = case_states(results)
    rules = sorted({rule for rule, _ in states}, key=lambda rule: (codes.get(rule, "~"), rule))
    width = max((len(rule) for rule in rules), default=0)
    lines = []
    for rule in rules:
        own = [state for (owner, _), state in states.items() if owner == rule]
        lines.append(f"{codes.get(rule, ''):6}  {rule:{width}}  {_counts(own, paint)}")
    elsewhere = {(row.rule, row.case): row.environment for row in results if row.environment}
    here = [state for case, state in states.items() if case not in elsewhere]
    lines += ["", f"{paint.bold('Cases')}: {_counts(here, paint)}"]
    for name in sorted(set(elsewhere.values())):
        own = [state for case, state in states.items() if elsewhere.get(case) == name]
        lines.append(f"{paint.bold(f'Cases of the environment {name}')}: {_counts(own, paint)}")
    if not any(state is not State.NOT_RUN for state in states.values()):
        lines.append(paint.bad("Nothing was executed, so nothing is known."))
    if State.LOCKED in states.values():
        lines.append(paint.dim("locked: not executed; unchanged since the outcome was recorded"))
    return "\n".join(lines) + "\n"


def render_json(results: Sequence[Result], codes: Mapping[str, str]) -> str:
    """Each row as an object, with its rule's code."""
    rows = [{"code": codes.get(result.rule), **asdict(result)} for result in results]
    return json.dumps(rows, indent=2) + "\n"


def by_case(results: Iterable[Result]) -> Iterator[list[Result]]:
    """The rows of each case as soon as they are all there."""
    for _, group in groupby(results, key=lambda result: (result.rule, result.case)):
        yield list(group)


def _columns(*texts: str) -> str:
    return "  ".join(_cut(text, width) for text, width in zip(texts, _WIDTHS, strict=True))


def _cut(text: str, width: int) -> str:
    text = " ".join(text.split())
    return f"{text:{width}}" if len(text) <= width else text[: width - 1] + "…"


def _counts(states: Sequence[State], paint: Paint) -> str:
    parts = [
        paint_state(f"{states.count(state)} {state}")
        for state, paint_state in _paints(paint).items()
        if state in states
    ]
    return ", ".join(parts) or "none"


def _painted(state: State, paint: Paint) -> str:
    return _paints(paint)[state](str(state))


def _paints(paint: Paint) -> Mapping[State, Callable[[str], str]]:
    return {
        State.FAILED: paint.bad,
        State.NOT_RUN: paint.warn,
        State.VERIFIED: paint.good,
        State.LOCKED: paint.good,
    }
