"""The generated page of the rule API: the public methods of the context, with their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from tpulint.rules_api import Context, matchers, syntax
from tpulint.rules_api.devices import Devices
from tpulint.rules_api.names import Names
from tpulint.rules_api.program import Program
from tpulint.rules_api.rewrite import Rewriting
from tpulint.rules_api.trace import Trace
from tpulint.rules_api.types import Types

PAGE = Path("docs") / "rule-api.md"
_PARTS = {
    "ctx": Context,
    "ctx.names": Names,
    "ctx.types": Types,
    "ctx.trace": Trace,
    "ctx.devices": Devices,
    "ctx.program": Program,
    "ctx.rewrite": Rewriting,
}
_HEAD = """\
<!-- Written by `python -m tpulint.dev render-docs` from the docstrings of `tpulint.rules_api`. -->

# The rule API

A handler of a rule gets a node of the syntax tree and a context `ctx`, which stands for one location in one
file.
A handler that is registered for a pattern gets the node of LibCST.
[writing-rules.md](writing-rules.md) shows a complete rule.
"""
_TABLE = "| call | answer |\n| --- | --- |\n"


def render() -> str:
    """The page."""
    parts = [_HEAD]
    for name, cls in _PARTS.items():
        doc = (inspect.getdoc(cls) or "").splitlines()[0]
        parts.append(f"## `{name}`\n\n{doc}\n\n{_TABLE}{''.join(_rows(cls))}")
    functions = "".join(_row(name, getattr(syntax, name)) for name in syntax.__all__)
    parts.append(f"## `tpulint.rules_api.syntax`\n\nFunctions that need no context.\n\n{_TABLE}{functions}")
    functions = "".join(
        _row(one.__name__, one) for one in (matchers.matches, matchers.extract, matchers.findall)
    )
    parts.append(
        "## `tpulint.rules_api.matchers`\n\nThe names of `libcst.matchers`, for patterns, and functions that "
        f"compare nodes of LibCST with patterns.\n\n{_TABLE}{functions}"
    )
    return "\n".join(parts)


def _rows(cls: type) -> Iterator[str]:
    for owner in reversed(cls.__mro__):
        for name, member in vars(owner).items():
            if not name.startswith("_") and member.__doc__ and not inspect.ismemberdescriptor(member):
                yield _row(name, member)


def _row(name: str, member: object) -> str:
    call = name
    if inspect.isfunction(member):
        given = [one for one in inspect.signature(member).parameters.values() if one.name != "self"]
        call = f"{name}({', '.join(map(_parameter, given))})"
    doc = " ".join((inspect.getdoc(member) or "").split("\n\n")[0].split())
    return f"| `{call}` | {doc} |\n"


def _parameter(parameter: inspect.Parameter) -> str:
    star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
    value = str(parameter.default) if isinstance(parameter.default, str) else parameter.default
    default = "" if value is inspect.Parameter.empty else f"={value!r}"
    return f"{star}{parameter.name}{default}"
