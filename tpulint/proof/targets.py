"""The targets and options of `tpulint verify`, from a command line or a `[tool.tpulint.verify]` table."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tpulint.invocation import UsageError
from tpulint.proof.names import SPLIT, names_module

CASE = "verify_"
"""The prefix of functions that return a module and its inputs."""
_UNITS = {"": 2**30, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Target:
    """A program with its arguments, or an expression for a module or function of a file."""

    file: Path
    arguments: tuple[str, ...] = ()
    expression: str = ""
    """Such as `Net`, `Net(depth=2)` or `verify_small`; empty for a program."""
    inputs: tuple[str, ...] = ()
    """Expressions with the functions of torch, such as `randn(2, 3)` or `mask=ones(2, 5)`."""

    @property
    def name(self) -> str:
        """The target as written on the command line."""
        if self.expression:
            return f"{self.file}:{self.expression}"
        return shlex.join([str(self.file), *self.arguments])


@dataclass(frozen=True, slots=True)
class Mesh:
    """The axes of a mesh of chips, with their sizes, and the sharding rules of weights."""

    axes: tuple[tuple[str, int], ...] = ()
    rules: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Patterns of weight names, each with an axis for each dimension; "" if the dimension is not split."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the user."""

    steps: int = 3
    timeout: float = 600.0
    memory: int = 16 * 2**30
    platform: str = "auto"
    tpus: tuple[str, ...] = ()
    mesh: Mesh = Mesh()
    gradients: bool = False
    """Whether the backward pass of modules is compiled, too."""
    largest_batch: bool = False
    traces: bool = True
    compile_only: bool = False
    exclude: tuple[str, ...] = ()
    project: Path | None = None


def read_words(words: Sequence[str], inputs: Sequence[str]) -> list[Target]:
    """The targets of a command line: one program with its arguments, or any number of modules.

    Raises:
        UsageError: a file does not exist, or an expression does not parse.
    """
    if not words:
        return []
    if names_module(words[0]):
        return [_module(word, inputs) for word in words]
    if inputs:
        raise UsageError(
            f"--input is for a module such as `{words[0]}:Net`; a program takes its arguments after its name"
        )
    return [Target(_existing(words[0]), tuple(words[1:]))]


def _module(word: str, inputs: Sequence[str]) -> Target:
    if not names_module(word):
        raise UsageError(
            f"`{word}` is not `FILE.py:NAME`; programs and modules cannot be verified in the same command"
        )
    file, expression = SPLIT.split(word, maxsplit=1)
    _parsed(expression.replace("*", "_") if expression.startswith(CASE) else expression, "a module")
    for one in inputs:
        _parsed(_value(one), 'an input, such as "randn(2, 3, 224, 224)"')
    return Target(_existing(file), expression=expression, inputs=tuple(inputs))


def name_and_value(text: str) -> tuple[str, str]:
    """The keyword of an input, or "", and its expression."""
    name, equals, value = text.partition("=")
    if equals and name.strip().isidentifier() and not value.startswith("="):
        return name.strip(), value.strip()
    return "", text.strip()


def _value(text: str) -> str:
    return name_and_value(text)[1]


def _parsed(text: str, what: str) -> None:
    try:
        ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise UsageError(f"`{text}` is not {what}: {error.msg}") from None


def _existing(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        hint = ""
        if re.fullmatch(r"[A-Z]+\d*|[a-z][a-z0-9_-]*(/\w+)?", name):
            hint = "; `tpulint verify-rules` executes the fixture cases of rules"
        raise UsageError(f"there is no file `{name}`{hint}")
    return path


def read_size(text: str) -> int:
    """Bytes: `8`, `8G` and `8 GiB` are the same.

    Raises:
        ValueError: the text is not a size.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"`{text}` is not a size such as 8G or 500M")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def read_mesh(axes: str, rules: Sequence[str]) -> Mesh:
    """A mesh such as `data=2,model=4`, with rules such as `attn.*weight=model,-`.

    Raises:
        UsageError: the axes or a rule are not valid.
    """
    try:
        pairs = [
            (name.strip(), int(size)) for name, size in (one.split("=") for one in axes.split(",") if one)
        ]
    except ValueError:
        raise UsageError(f"`{axes}` is not a mesh such as data=2,model=4") from None
    if any(size < 1 for _, size in pairs):
        raise UsageError(f"`{axes}` is not a mesh: the size of each axis is at least 1")
    names = {name for name, _ in pairs}
    read = []
    for rule in rules:
        pattern, _, dimensions = rule.rpartition("=")
        split = tuple(
            "" if one.strip() in ("-", "None", "") else one.strip() for one in dimensions.split(",")
        )
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"the pattern of `{rule}` is not valid: {error}") from None
        if not pattern or set(split) - names - {""}:
            known = ", ".join(sorted(names)) or "of --mesh"
            raise UsageError(
                f"`{rule}` is not PATTERN=AXIS,AXIS with the axes {known}, or - for a dimension left whole"
            )
        read.append((pattern, split))
    return Mesh(tuple(pairs), tuple(read))


_TABLE: Mapping[str, type | tuple[type, ...]] = {
    "steps": int,
    "timeout": (int, float),
    "memory": str,
    "tpu": list,
    "mesh": str,
    "shard": list,
    "exclude": list,
    "targets": list,
}


def read_table(table: Mapping[str, Any], root: Path, options: Options) -> tuple[Options, list[Target]]:
    """The options and targets of a `[tool.tpulint.verify]` table in the pyproject.toml of a folder.

    Raises:
        UsageError: a key or a value is not valid.
    """
    where = f"{root / 'pyproject.toml'}: `tool.tpulint.verify"
    for key, value in table.items():
        if key not in _TABLE:
            raise UsageError(f"{where}.{key}` is not known; accepted are {', '.join(sorted(_TABLE))}")
        if not isinstance(value, _TABLE[key]) or isinstance(value, bool):
            raise UsageError(f"{where}.{key}` has the wrong type")
    try:
        memory = read_size(table["memory"]) if "memory" in table else options.memory
    except ValueError as error:
        raise UsageError(f"{where}.memory`: {error}") from None
    options = replace(
        options,
        steps=table.get("steps", options.steps),
        timeout=float(table.get("timeout", options.timeout)),
        memory=memory,
        tpus=tuple(table.get("tpu", options.tpus)),
        mesh=read_mesh(table.get("mesh", ""), table.get("shard", [])),
        exclude=tuple(table.get("exclude", ())),
    )
    targets = []
    for number, entry in enumerate(table.get("targets", []), 1):
        unknown = set(entry) - {"target", "arguments", "inputs"} if isinstance(entry, dict) else {"?"}
        if unknown or "target" not in entry:
            raise UsageError(
                f"{where}.targets` {number} is not a table with `target`, `arguments` and `inputs`"
            )
        words = [str(root / entry["target"]), *map(str, entry.get("arguments", []))]
        targets += read_words(words, [str(one) for one in entry.get("inputs", [])])
    return options, targets
