"""The generated page of the rule API: options, methods of the context, and types, from their docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cached_property
from pathlib import Path

from tpulint import rules_api
from tpulint.rules_api import Context, Kind, Rule, files, matchers, results, syntax
from tpulint.rules_api.devices import Devices
from tpulint.rules_api.files import FileContext
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
A handler that is registered with `rule.on_part` gets a part of a file around the code, and a `FileContext`.
[writing-rules.md](writing-rules.md) shows a complete rule.
The classes that the tables name are described under [types](#types).
"""
_TABLE = "| call | type | answer |\n| --- | --- | --- |\n"
_ATTRIBUTES = "| attribute | type | value |\n| --- | --- | --- |\n"
_OPTIONS = "| option | default | meaning |\n| --- | --- | --- |\n"
_ARGUMENT = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def render() -> str:
    """The page."""
    parts = [
        _HEAD,
        f"## `Rule(...)`\n\n{_OPTIONS}{''.join(_options(Rule, Rule))}",
        *(_method(name, called) for name, called in (("on", Rule.on), ("on_part", Rule.on_part))),
    ]
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
    parts.append(_files())
    parts.append("## Types\n\nRules import these from `tpulint.rules_api` and `tpulint.rules_api.results`.\n")
    parts += [_type(cls) for cls in _types()]
    return "\n".join(parts)


def _method(name: str, called: Callable[..., object]) -> str:
    """The section of a method of `rule`."""
    return f"## `rule.{name}(...)`\n\n{_doc(called)}\n\n{_OPTIONS}{''.join(_options(called, called))}"


def _files() -> str:
    """The section of files around the code: the context, and the classes of parts."""
    parts = [getattr(files, name) for name in files.__all__ if name != FileContext.__name__]
    head = f"## `tpulint.rules_api.files`\n\n{inspect.getdoc(files)}\n"
    return "\n".join([head, _type(FileContext), *map(_type, parts)])


def _options(called: Callable[..., object], documented: object) -> Iterator[str]:
    """A row for each parameter."""
    meanings = _arguments(documented)
    for name, parameter in inspect.signature(called).parameters.items():
        if name != "self":
            default = "" if parameter.default is inspect.Parameter.empty else f"`{parameter.default!r}`"
            yield f"| `{name}` | {default} | {meanings[name]} |\n"


def _doc(documented: object) -> str:
    """A docstring without its sections."""
    return re.split(r"\n\n(?=\w+:\n)", inspect.getdoc(documented) or "")[0]


def _arguments(documented: object) -> dict[str, str]:
    """The descriptions of the parameters in a docstring."""
    _, _, section = (inspect.getdoc(documented) or "").partition("\n\nArgs:\n")
    found = _ARGUMENT.findall(section.split("\n\n")[0])
    return {name: _sentence(" ".join(text.split())) for name, text in found}


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].removesuffix('.')}."


def _types() -> list[type]:
    """The classes that a rule gets from its context, or compares with what it gets, by name."""
    modules = (rules_api, results)
    found = {getattr(module, name) for module in modules for name in module.__all__}
    classes = [one for one in found if inspect.isclass(one) and one not in (Context, Rule)]
    return sorted(classes, key=lambda cls: cls.__name__)


def _type(cls: type) -> str:
    """A heading, what the class is, its attributes with their types, and its methods."""
    text = f"### `{cls.__name__}`\n\n{_doc(cls)}\n"
    if issubclass(cls, Kind) and cls is not Kind:
        text += f"\nA [`{Kind.__name__}`](#{Kind.__name__.lower()}).\n"
    meanings = _arguments(cls)
    fields = {} if issubclass(cls, Enum) else inspect.get_annotations(cls)
    types = {name: getattr(given, "__forward_arg__", given) for name, given in fields.items()}
    plain = [f"`{name}: {annotation}`" for name, annotation in types.items() if name not in meanings]
    if plain:
        text += f"\nAttributes: {', '.join(plain)}.\n"
    rows = [f"| `{name}` | {_code(types[name])} | {meanings[name]} |\n" for name in types if name in meanings]
    rows += [_row(name, member) for name, member in _members(cls)]
    return f"{text}\n{_ATTRIBUTES}{''.join(rows)}" if rows else text


def _rows(cls: type) -> Iterator[str]:
    for owner in reversed(cls.__mro__):
        yield from (_row(name, member) for name, member in _members(owner))


def _members(cls: type) -> Iterator[tuple[str, object]]:
    """The public methods and properties of a class."""
    for name, member in vars(cls).items():
        function = inspect.isfunction(member) or isinstance(member, property | cached_property)
        if function and not name.startswith("_"):
            yield name, member


def _row(name: str, member: object) -> str:
    call, function = name, member
    if isinstance(member, property):
        function = member.fget
    elif isinstance(member, cached_property):
        function = member.func
    assert inspect.isfunction(function)
    signature = inspect.signature(function)
    if function is member:
        given = [one for one in signature.parameters.values() if one.name != "self"]
        call = f"{name}({', '.join(map(_parameter, given))})"
    doc = " ".join((inspect.getdoc(member) or "").split("\n\n")[0].split())
    return f"| `{call}` | {_code(signature.return_annotation)} | {doc} |\n"


def _code(annotation: str) -> str:
    """An annotation as code within a table."""
    return f"`{annotation}`".replace("|", "\\|")


def _parameter(parameter: inspect.Parameter) -> str:
    star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
    value = str(parameter.default) if isinstance(parameter.default, str) else parameter.default
    default = "" if value is inspect.Parameter.empty else f"={value!r}"
    return f"{star}{parameter.name}{default}"
