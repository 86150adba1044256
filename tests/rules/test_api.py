"""What rules may use of tpulint: the rule API and the tables, and nothing behind them."""

from __future__ import annotations

import ast
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tpulint import rules_api
from tpulint.dev import api_page
from tpulint.rules_api import Context, Rule, files, results, syntax
from tpulint.rules_api.devices import Devices
from tpulint.rules_api.files import FileContext
from tpulint.rules_api.names import Names
from tpulint.rules_api.program import Program
from tpulint.rules_api.rewrite import Rewriting
from tpulint.rules_api.trace import Trace
from tpulint.rules_api.types import Types

ROOT = Path(__file__).parents[2]
RULES = sorted((ROOT / "rules" / "tpulint_rules").glob("*/*.py"))
NAMESPACES: dict[str, type] = {
    "names": Names,
    "types": Types,
    "trace": Trace,
    "devices": Devices,
    "program": Program,
    "rewrite": Rewriting,
}
MODULES = (
    "tpulint.rules_api",
    "tpulint.rules_api.files",
    "tpulint.rules_api.matchers",
    "tpulint.rules_api.results",
    "tpulint.rules_api.syntax",
)
EXPORTED = [getattr(module, name) for module in (rules_api, files, results) for name in module.__all__]


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules of tpulint that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "tpulint")


def members(cls: type) -> dict[str, Callable[..., object]]:
    """The public methods and properties of a class, the latter as functions."""
    found: dict[str, Callable[..., object]] = {}
    for name, member in vars(cls).items():
        function = member.fget if isinstance(member, property) else getattr(member, "func", member)
        if not name.startswith("_") and inspect.isfunction(function):
            found[name] = function
    return found


def classes(annotation: object) -> Iterator[type]:
    """The classes that an annotation names."""
    if isinstance(annotation, type):
        yield annotation
    for part in annotation if isinstance(annotation, list) else typing.get_args(annotation):
        yield from classes(part)


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_a_rule_imports_the_api_and_the_tables_alone(path: Path) -> None:
    modules = set(imported(ast.parse(path.read_text(encoding="utf-8"))))
    assert [] == [one for one in modules if one not in MODULES and not one.startswith("tpulint.knowledge.")]


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_a_rule_takes_no_private_attribute(path: Path) -> None:
    taken = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
    assert [] == [name for name in taken if name.startswith("_") and not name.endswith("__")]


def test_the_context_has_the_namespaces_and_a_few_members_of_its_own() -> None:
    hints = {name: typing.get_type_hints(member)["return"] for name, member in members(Context).items()}
    assert NAMESPACES == {name: hint for name, hint in hints.items() if hint in NAMESPACES.values()}
    assert len(hints) < 30
    assert {"rule", "scope"} == {name for name in Context.__slots__ if not name.startswith("_")}


@pytest.mark.parametrize("cls", [Context, FileContext, *NAMESPACES.values()], ids=lambda cls: cls.__name__)
def test_signatures_name_only_classes_that_rules_can_import(cls: type) -> None:
    given = {*EXPORTED, *NAMESPACES.values()}
    hidden = {
        f"{name}: {one.__qualname__}"
        for name, member in members(cls).items()
        for annotation in typing.get_type_hints(member).values()
        for one in classes(annotation)
        if one.__module__.startswith("tpulint.") and one not in given
    }
    assert set() == hidden


def test_training_steps_have_docstrings_and_rules_reach_no_part_of_them() -> None:
    assert [] == [name for name, member in members(results.Steps).items() if not member.__doc__]
    parts = r"\.(learned|guessed|changing|handing)\."
    assert [] == [path.name for path in RULES if re.search(parts, path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("cls", [Context, FileContext, *NAMESPACES.values()], ids=lambda cls: cls.__name__)
def test_public_names_have_docstrings(cls: type) -> None:
    assert [] == [name for name, member in members(cls).items() if not member.__doc__]
    assert [] == [name for name in syntax.__all__ if not getattr(syntax, name).__doc__]


@pytest.mark.parametrize("cls", NAMESPACES.values(), ids=lambda cls: cls.__name__)
def test_only_methods_that_return_a_bool_are_documented_with_whether(cls: type) -> None:
    returned = {name: typing.get_type_hints(one)["return"] for name, one in members(cls).items()}
    said = {name for name, one in members(cls).items() if (one.__doc__ or "").startswith("Whether")}
    assert {name for name, hint in returned.items() if hint is bool} == said


def test_the_page_of_the_api_has_the_options_of_rules_and_the_types_that_the_namespaces_return() -> None:
    page = api_page.render()
    called = (Rule, Rule.on, Rule.on_part)
    options = {name for one in called for name in inspect.signature(one).parameters} - {"self"}
    assert [] == [
        name for name in options if not re.search(rf"^\| `{name}` \|.*\| [A-Z`].*\. \|$", page, re.MULTILINE)
    ]
    returned = {
        one.__name__
        for cls in NAMESPACES.values()
        for member in members(cls).values()
        for one in classes(typing.get_type_hints(member)["return"])
        if one.__module__.startswith("tpulint.")
    }
    assert [] == [name for name in {*returned, *files.__all__} if f"### `{name}`\n" not in page]
