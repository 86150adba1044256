"""Cases that are whole programs: what is compared of two runs, and what it comes to.

Compared are the losses of their training, what they print, and the parameters and buffers that they end with.
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Iterable

import numpy as np

from tpulint.verify import judge
from tpulint.verify.claims import Outcome, Word
from tpulint.verify.recipe import Recipe
from tpulint.verify.record import Record, State
from tpulint.verify.script import Ended
from tpulint.verify.values import Array, Group, Tolerance, compare

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]*\w)")
_RAISED = re.compile(r"^(?P<type>(?:\w+\.)*\w+)(?:: (?P<message>.*))?$", re.DOTALL)

# Of the way that a parameter went in training: no tolerance, however loose, hides one that stayed behind.
_ASTRAY = 0.25


def of_reference(ended: Ended, recipe: Recipe) -> Outcome:
    """What the original on plain torch came to."""
    if (died := _death(ended)) is not None:
        return died
    losses, states = ended.record.losses, ended.record.states
    if len(losses) != recipe.losses:
        return Outcome(Word.BROKEN, f"{len(losses)} calls of `backward`, but run.py says {recipe.losses}")
    if not all(math.isfinite(loss.value) for loss in losses):
        return Outcome(Word.BROKEN, "a loss is infinite or not a number")
    if losses and not any(state.on_accelerator for state in states):
        return Outcome(Word.BROKEN, "it trains nothing that is on an accelerator")
    return Outcome(Word.EQUAL if _lines(ended, recipe.ignore_lines) else Word.NOTHING)


def outcome(ended: Ended, reference: Ended, recipe: Recipe, notes: set[str]) -> Outcome:
    """What a program came to beside the reference."""
    if (died := _death(ended)) is not None:
        return died
    if ended.record.stood_in:
        return judge.stood_in(ended.record.stood_in)
    ours, theirs = (_lines(side, recipe.ignore_lines) for side in (ended, reference))
    if not ours:
        return Outcome(Word.NOTHING)
    difference = (
        _other_losses(ended.record, reference.record, recipe)
        or _other_print(ours, theirs, recipe)
        or _other_states(ended.record, reference.record, recipe, notes)
    )
    if difference:
        return Outcome(Word.DIFFERS, difference)
    if ended.record.operations == 0:
        return Outcome(Word.HOST, "nothing ran on torchax")
    if stayed := _stayed_on_host(ended.record, reference.record):
        return Outcome(Word.HOST, f"{stayed} is a host tensor")
    if ours != theirs:
        notes.add("printed numbers differ within the tolerance")
    if recipe.rounding:
        notes.add(f"looser tolerance: {recipe.rounding}")
    notes |= {f"not compared: {pattern}: {reason}" for pattern, reason in recipe.undetermined.items()}
    counts = {
        "lines": len(ours),
        "losses": len(ended.record.losses),
        "tensors of state": sum(len(state.values.items) for state in ended.record.states),
        "operations": ended.record.operations,
    }
    return Outcome(Word.EQUAL, ", ".join(f"{count} {what}" for what, count in counts.items() if count))


def _other_losses(ours: Record, theirs: Record, recipe: Recipe) -> str:
    if len(ours.losses) != len(theirs.losses):
        return f"{len(ours.losses)} losses, not {len(theirs.losses)}"
    for number, (loss, expected) in enumerate(zip(ours.losses, theirs.losses, strict=True), 1):
        if not _near(loss.value, expected.value, recipe):
            return f"loss {number} is {loss.value:.7g}, not {expected.value:.7g}"
    return ""


def _other_print(ours: list[str], theirs: list[str], recipe: Recipe) -> str:
    for row, (line, expected) in enumerate(zip(ours, theirs, strict=False), 1):
        if not _same(line, expected, recipe):
            return f"line {row} is {line!r}, not {expected!r}"
    return "" if len(ours) == len(theirs) else f"{len(ours)} lines, not {len(theirs)}"


def _other_states(ours: Record, theirs: Record, recipe: Recipe, notes: set[str]) -> str:
    names, expected = ([state.module for state in record.states] for record in (ours, theirs))
    if names != expected:
        return f"the modules are {', '.join(names) or 'none'}, not {', '.join(expected) or 'none'}"
    for state, reference in zip(ours.states, theirs.states, strict=True):
        values, due = (_determined(side.values, recipe) for side in (state, reference))
        comparison = compare(due, values, recipe.tolerance, state.module)
        notes |= {f"{text} (torchax's default)" for text in comparison.narrowed}
        if difference := comparison.difference or _astray(state, reference, recipe):
            return difference
    return ""


def _determined(values: Group, recipe: Recipe) -> Group:
    """The tensors whose values more than rounding decides on."""
    patterns = [re.compile(pattern) for pattern in recipe.undetermined]
    items = ((name, value) for name, value in values.items if not any(p.search(name) for p in patterns))
    return Group("mapping", tuple(items))


def _astray(state: State, reference: State, recipe: Recipe) -> str:
    """The first tensor that training did not take where it should, whatever the tolerance."""
    if reference.start is None:
        return ""
    start, got = dict(reference.start.items), dict(state.values.items)
    for name, due in _determined(reference.values, recipe).items:
        if name not in start:  # a program may name its parameters anew, as adapters do that are merged
            continue
        begin, end = start[name], got[name]
        assert isinstance(due, Array)
        assert isinstance(begin, Array)
        assert isinstance(end, Array)
        if compare(due, end, Tolerance()).difference is None:
            continue
        way, off = (np.linalg.norm((side.data - due.data).astype(float)) for side in (begin, end))
        if off > _ASTRAY * way:
            where = f"{state.module}[{name}] ends {off:.2g} from where it should"
            return f"{where}, which is {way:.2g} from its start"
    return ""


def _stayed_on_host(ours: Record, theirs: Record) -> str:
    return next(
        (
            f"{state.module}[{name}]"
            for state, expected in zip(ours.states, theirs.states, strict=True)
            for name in sorted(expected.on_accelerator - state.on_accelerator)
        ),
        "",
    )


def _death(ended: Ended) -> Outcome | None:
    if ended.status is None:
        return Outcome(Word.HANGS, "no end within the time limit")
    if ended.status < 0:
        return Outcome(Word.CRASHES, f"the process died of {signal.Signals(-ended.status).name}")
    if ended.status == 0:
        return None
    # The last line that is not indented and not part of a traceback names what was raised.
    lines = [line for line in ended.errors.splitlines() if line and not line[0].isspace()]
    starts = [i for i, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    if starts and (raised := _RAISED.match("\n".join(lines[starts[-1] + 1 :]))):
        return Outcome(Word.RAISES, raised["message"] or "", raised["type"].rpartition(".")[2])
    return Outcome(Word.CRASHES, f"the program ended with status {ended.status}")


def _lines(ended: Ended, ignored: Iterable[str]) -> list[str]:
    patterns = [re.compile(pattern) for pattern in ignored]
    return [line for line in ended.printed.splitlines() if not any(p.search(line) for p in patterns)]


def _same(line: str, expected: str, recipe: Recipe) -> bool:
    """Same text around the numbers, same whole numbers, and other numbers within the tolerance."""
    if _NUMBER.split(line) != _NUMBER.split(expected):
        return False
    for ours, theirs in zip(_NUMBER.findall(line), _NUMBER.findall(expected), strict=True):
        if ours == theirs:
            continue
        if ours.lstrip("+-").isdigit() and theirs.lstrip("+-").isdigit():
            return False
        if not _near(float(ours), float(theirs), recipe):
            return False
    return True


def _near(ours: float, theirs: float, recipe: Recipe) -> bool:
    rtol, atol = recipe.tolerance.for_dtype("float32")
    return abs(ours - theirs) <= atol + rtol * abs(theirs)
