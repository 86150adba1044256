"""run.py: how a case is to be executed, and what is claimed of its original."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpulint.verify.claims import Claim, read_claim
from tpulint.verify.values import Tolerance

_STAGES = ("eager", "jit", "tpu")
_SETTINGS = {
    "arguments", "call", "claim", "compare_inputs", "environment", "ignore_lines", "inputs", "inputs_on_host",
    "losses", "module", "not_executed", "program", "rounding", "round_trip", "tolerance", "traced",
    "undetermined",
}  # fmt: skip
_FEWEST_LOSSES = 10


@dataclass(frozen=True, slots=True)
class Recipe:
    """What run.py states, without its functions, so that it crosses processes."""

    traced: bool = False
    program: bool = False
    claims: Mapping[str, Claim] = field(default_factory=dict)
    tolerance: Tolerance = field(default_factory=Tolerance)
    not_executed: str = ""
    round_trip: str = ""
    """Why data may leave torchax, be worked on by the host and come back; empty where it may not."""
    inputs_on_host: bool = False
    compare_inputs: bool = False
    """Whether the inputs, as the call left them, are compared too."""
    module: str = ""
    """Which file of a case with several is handed to `call`; empty for main.py or the only one."""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    ignore_lines: tuple[str, ...] = ()
    losses: int = 0
    """How often a program calls `backward`."""
    rounding: str = ""
    """Why a program's numbers may differ by more than rounding itself does."""
    undetermined: Mapping[str, str] = field(default_factory=dict)
    """Patterns of names of a program's parameters that rounding alone decides on, each with the reason."""


def execute(path: Path) -> dict[str, Any]:
    """run.py's names; whatever it raises goes to the caller."""
    text = path.read_text(encoding="utf-8")
    linecache.cache[str(path)] = (len(text), None, text.splitlines(keepends=True), str(path))
    names: dict[str, Any] = {"__name__": "run", "__file__": str(path)}
    exec(compile(text, str(path), "exec"), names)  # it is there to be executed
    return names


def read(names: Mapping[str, Any]) -> Recipe:
    """The recipe that run.py's names make; ValueError for what it cannot mean."""
    # Helpers and imports are run.py's own affair; a plain value under an unknown name is a typing slip.
    for name, value in names.items():
        if name.islower() and name not in _SETTINGS and isinstance(value, bool):
            raise ValueError(f"run.py sets `{name}`, which means nothing to verify")
    claims = names.get("claim", {})
    if not isinstance(claims, Mapping) or not set(claims) <= set(_STAGES):
        raise ValueError(f"`claim` maps stages ({', '.join(_STAGES)}) to words, not {claims!r}")
    program, not_executed = bool(names.get("program", False)), str(names.get("not_executed", ""))
    if not (program or not_executed or callable(names.get("inputs"))):
        raise ValueError("run.py has no `inputs()`")
    losses, rounding = int(names.get("losses", 0)), str(names.get("rounding", ""))
    if 0 < losses < _FEWEST_LOSSES:
        raise ValueError(f"a program that trains takes {_FEWEST_LOSSES} steps or more, not {losses}")
    if program and names.get("tolerance") and not rounding:
        raise ValueError("a program with a `tolerance` of its own states the reason as `rounding`")
    return Recipe(
        traced=bool(names.get("traced", False)),
        program=program,
        claims={stage: read_claim(text) for stage, text in claims.items()},
        tolerance=Tolerance(**names.get("tolerance", {})),
        not_executed=not_executed,
        round_trip=str(names.get("round_trip", "")),
        inputs_on_host=bool(names.get("inputs_on_host", False)),
        compare_inputs=bool(names.get("compare_inputs", False)),
        module=str(names.get("module", "")),
        arguments=tuple(map(str, names.get("arguments", ()))),
        environment={name: str(value) for name, value in names.get("environment", {}).items()},
        ignore_lines=tuple(names.get("ignore_lines", ())),
        losses=losses,
        rounding=rounding,
        undetermined=dict(names.get("undetermined", {})),
    )


def make_inputs(names: Mapping[str, Any], module: Any, seed: int) -> tuple[Any, ...]:
    """The call's inputs; `inputs` is given the arguments `module` and `seed` if it has such parameters."""
    inputs: Callable[..., Any] = names["inputs"]
    wanted = inspect.signature(inputs).parameters
    made = inputs(**{name: value for name, value in (("module", module), ("seed", seed)) if name in wanted})
    if not isinstance(made, tuple):
        raise TypeError(f"`inputs()` gives a tuple, not a {type(made).__name__}")
    return made


def make_call(names: Mapping[str, Any]) -> Callable[..., Any]:
    """The call under study, a function of the module and the inputs; `module.f(*inputs)` by default."""
    call: Callable[..., Any] = names.get("call") or (lambda module, *inputs: module.f(*inputs))
    return call
