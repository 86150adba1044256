"""Executes fixture cases in environments of their own, and compares what both sides give."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tpulint.evidence.environments import ENVIRONMENTS, FOLDER, Environment
from tpulint.fixture import Case, strip_wants
from tpulint.verify.conduct import laid_out, main_file
from tpulint.verify.recipe import Recipe, execute
from tpulint.verify.result import State
from tpulint.verify.values import Array, Group, Opaque, Scalar, Tolerance, Value, compare

_DRIVER = Path(__file__).with_name("driver.py")
_CLAIM = re.compile(r"(?P<word>equal|differs)|(?P<kind>raises|warns) (?P<type>\w+)(?:: (?P<pattern>.*))?")
_SETTINGS = {
    "call", "claim", "environment", "expected", "fixed_in", "inputs", "module", "not_executed", "prepare",
    "program", "stand_in", "tolerance", "variables",
}  # fmt: skip
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]*\w)")
_USER_VARIABLES = ("JAX_", "XLA_", "TF_", "PJRT_", "TPU_", "TORCH_", "PYTHON")
"""How the variables begin that change what the cases do, and are not taken over from the user."""
_FIRST = 300
#: Where packages, interpreters and cases lie, and when a message was logged, by which process.
_OF_MACHINE = re.compile(
    r"/[^\s()']*/(?:site-packages|bin|tpulint-case-\w+/\w+)/|\b[EFIW]\d{4} [\d:.]+\s+\d+ (?=\w+\.\w+:\d)"
)


@dataclass(frozen=True, slots=True)
class Ran:
    """What one side did: its values, what it raised (type and message), and its warnings."""

    value: Value = field(default_factory=lambda: Opaque("NoneType"))
    error: tuple[str, str] | None = None
    warnings: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        if self.error is None:
            return "runs"
        return f"raises {self.error[0]}: {_shortened(self.error[1])}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a case came to, in words for both sides; `claimed` is what run.py claims of the original."""

    state: State
    claimed: str = ""
    before: str = ""
    after: str = ""
    note: str = ""


class _BrokenCaseError(Exception):
    """run.py, not the code under study, is at fault."""


def outcome_of(
    case: Case, fixed: Mapping[str, str], environment: Environment, root: Path, timeout: float
) -> Outcome:
    """Execute a case: the original, which has to do what run.py claims, and the fixed code.

    Args:
        case: a case with a run.py.
        fixed: the current output of `fix` for it.
        environment: where it is executed.
        root: the checkout with the environment.
        timeout: the time limit for each side, in seconds.
    """
    assert case.run is not None
    try:
        run = _settings(case.run)
        if run.get("not_executed"):
            return Outcome(State.NOT_RUN, note=str(run["not_executed"]))
        with tempfile.TemporaryDirectory(prefix="tpulint-case-") as folder:
            sides = _Sides(case, run, environment, root, Path(folder), timeout)
            return _judged(sides, run, fixed)
    except _BrokenCaseError as error:
        return Outcome(State.FAILED, note=str(error))


def _settings(path: Path) -> dict[str, Any]:
    """run.py's names; its functions are called by the driver alone."""
    try:
        names = execute(path)
    except Exception as error:  # run.py may raise anything
        raise _BrokenCaseError(f"run.py raises {type(error).__name__}: {error}") from error
    for name, value in names.items():
        if name.islower() and name not in _SETTINGS and isinstance(value, bool):
            raise _BrokenCaseError(f"run.py sets `{name}`, which means nothing to verify")
    if not (names.get("not_executed") or _CLAIM.fullmatch(str(names.get("claim", "")))):
        raise _BrokenCaseError(
            '`claim` is "equal", "differs", "raises TypeName: regex" or "warns TypeName: regex"'
        )
    return names


@dataclass(frozen=True, slots=True)
class _Sides:
    """Executes the sides of a case, each in a process of its own."""

    case: Case
    run: Mapping[str, Any]
    environment: Environment
    root: Path
    folder: Path
    timeout: float

    def ran(self, side: str, texts: Mapping[str, str]) -> Ran:
        """What a side did: `before`, `after` or `expected`."""
        environment = ENVIRONMENTS[self.case.fixed_in] if side == "after" else self.environment
        folder = laid_out(self.case, texts, self.folder / side)
        request, answer = self.folder / f"{side}.json", self.folder / f"{side}-answer.json"
        main = main_file(self.case, Recipe(module=str(self.run.get("module", ""))))
        standins = str(self.case.folder.parents[1] / FOLDER)
        asked = {"run": str(self.case.run), "folder": str(folder), "main": main, "side": side}
        asked["standins"] = standins
        request.write_text(json.dumps(asked), "utf-8")
        kept = {name: text for name, text in os.environ.items() if not name.startswith(_USER_VARIABLES)}
        own = {name: str(value) for name, value in self.run.get("variables", {}).items()}
        try:
            ended = subprocess.run(
                [environment.interpreter(self.root), _DRIVER, request, answer],
                cwd=folder,
                env={**kept, **environment.variables, **own},
                capture_output=True,
                text=True,
                timeout=self.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Ran(error=("TimeoutExpired", f"no end within {self.timeout:.0f} s"))
        if not answer.is_file():
            last = (ended.stderr.strip().splitlines() or [""])[-1]
            return Ran(error=("Crash", f"the process ended with status {ended.returncode}: {last}"))
        found = json.loads(answer.read_text("utf-8"))
        if found["broken"]:
            raise _BrokenCaseError(found["broken"])
        error = tuple(found["error"]) if found["error"] else None
        value = _value(found["value"]) if found["value"] is not None else Opaque("NoneType")
        return Ran(value, error, tuple(map(tuple, found["warnings"])))


def _judged(sides: _Sides, run: Mapping[str, Any], fixed: Mapping[str, str]) -> Outcome:
    claimed = str(run["claim"])
    claim = _CLAIM.fullmatch(claimed)
    assert claim is not None
    tolerance = Tolerance(**run.get("tolerance", {}))
    note = str(run.get("stand_in", ""))
    before = sides.ran("before", {path: strip_wants(text) for path, text in sides.case.before.items()})
    after = sides.ran("after", fixed) if fixed != dict(sides.case.before) else None
    due = sides.ran("expected", {}) if "expected" in run else None
    if due is not None and due.error is not None:
        raise _BrokenCaseError(f"`expected()` {due}")
    values = due or (before if before.error is None and claim["word"] != "differs" else None)
    if values is None and after is not None:
        raise _BrokenCaseError(f"run.py has no `expected()`, and the original gives no values: it {before}")

    def compared(ran: Ran) -> tuple[bool, str]:
        if ran.error is not None or values is None:
            return False, str(ran)
        found = compare(values.value, ran.value, tolerance)
        if found.difference is not None:
            return False, f"differs: {found.difference}"
        return (
            found.compared > 0,
            f"equal: {found.compared} values" if found.compared else "nothing to compare",
        )

    equal, words = compared(before)
    match claim["kind"] or claim["word"]:
        case "equal":
            holds = equal
        case "differs":
            holds = words.startswith("differs")
        case "raises":
            holds = before.error is not None and before.error[0] == claim["type"]
            holds = holds and re.search(claim["pattern"] or "", before.error[1]) is not None  # type: ignore[index]
        case _:
            found = _warned(before, claim)
            holds, words = equal and bool(found), f"{words}; {found or 'no such warning'}"
    if after is None:
        return Outcome(State.VERIFIED if holds else State.FAILED, claimed, words, "", note)
    fine, result = compared(after)
    if claim["kind"] == "warns" and (left := _warned(after, claim)):
        fine, result = False, f"{result}; {left}"
    return Outcome(State.VERIFIED if holds and fine else State.FAILED, claimed, words, result, note)


def _warned(ran: Ran, claim: re.Match[str]) -> str:
    """The claimed warning, in words; "" if there was none."""
    for category, text in ran.warnings:
        if category == claim["type"] and re.search(claim["pattern"] or "", text):
            return f"warns {category}: {_shortened(text)}"
    return ""


def _shortened(text: str) -> str:
    """The beginning of a message, without what differs from machine to machine."""
    return " ".join(_OF_MACHINE.sub("", text).split())[:_FIRST]


def _value(given: Mapping[str, Any]) -> Value:
    """A value that the driver wrote; numbers with a fraction in a text are compared as numbers."""
    ((kind, content),) = given.items()
    match kind:
        case "scalar" if isinstance(content, str) and (numbers := _NUMBER.findall(content)):
            parts = [*_NUMBER.split(content), *map(float, numbers)]
            return Group("sequence", tuple((str(at), Scalar(part)) for at, part in enumerate(parts)))
        case "scalar":
            return Scalar(content)
        case "mapping":
            return Group("mapping", tuple((key, _value(item)) for key, item in content))
        case "sequence":
            return Group("sequence", tuple((str(at), _value(item)) for at, item in enumerate(content)))
        case "array":
            dtype, stored, shape, data = content
            array = np.frombuffer(base64.b64decode(data), np.dtype(stored)).reshape(shape)
            return Array("host", dtype, array)
        case _:
            return Opaque(str(content))
