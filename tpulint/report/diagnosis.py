"""The checks of `tpulint doctor`, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tpulint.report.paint import Paint


class Check(Protocol):
    """What is printed of a check; see `tpulint.doctor.checks.Check`."""

    @property
    def name(self) -> str:
        """What was checked."""

    @property
    def state(self) -> str:
        """How the check ended."""

    @property
    def message(self) -> str:
        """What was found."""

    @property
    def remedy(self) -> str:
        """What to do; "" for nothing."""


def render(checks: Sequence[Check], paint: Paint) -> str:
    """A line for each check, and below it what to do."""
    width = max(len(one.name) for one in checks)
    states = max(len(one.state) for one in checks)
    colors = {"ok": paint.good, "warning": paint.warn, "problem": paint.bad, "not checked": paint.dim}
    lines = []
    for one in checks:
        state = colors[one.state](f"{one.state:<{states}}")
        lines.append(f"{state}  {paint.bold(f'{one.name:<{width}}')}  {one.message}\n")
        if one.remedy:
            lines += [f"{'':<{states + width}}    -> {part}\n" for part in one.remedy.split(" && ")]
    return "".join(lines) + _summary(checks, paint)


def _summary(checks: Sequence[Check], paint: Paint) -> str:
    problems = sum(one.state == "problem" for one in checks)
    warnings = sum(one.state == "warning" for one in checks)
    if not problems and not warnings:
        return paint.good("No problems") + "\n"
    counted = [
        f"{number} {noun}{'' if number == 1 else 's'}"
        for number, noun in ((problems, "problem"), (warnings, "warning"))
        if number
    ]
    return paint.bold(" and ".join(counted)) + "\n"
