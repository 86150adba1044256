"""Private names of torch, torchax and JAX: all are in `adapters/`, and `enable()` checks them."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torchax_compat
from torchax_compat.adapters import instance_attributes

SOURCE = Path(torchax_compat.__file__).parent
MODULES = sorted(file for file in SOURCE.rglob("*.py") if file.parent.name != "adapters")
TREES = {file: ast.parse(file.read_text(encoding="utf-8")) for file in MODULES}
#: Private names that Python documents: of named tuples, of frames, and of `os`.
DOCUMENTED = {"_replace", "_fields", "_getframe", "_exit"}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _own(tree: ast.Module) -> Iterator[str]:
    """The private attributes of the runtime's classes: methods, class attributes, and those set on `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.FunctionDef):
                    yield statement.name
                yield from (one.id for one in ast.walk(statement) if _is_stored(one, ast.Name))
        if _is_stored(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr


def _is_stored(node: ast.AST, of: type) -> bool:
    return isinstance(node, of) and isinstance(node.ctx, ast.Store)


OWN = {name for tree in TREES.values() for name in _own(tree)}
READ = {name for names in instance_attributes.READ.values() for name in names}
ADDED = {name for names in instance_attributes.ADDED.values() for name in names}
KNOWN = OWN | READ | ADDED | DOCUMENTED | {instance_attributes.PARAMETER_MARK}
LIGHTNING = SOURCE / "frameworks" / "lightning.py"
#: Private names of Lightning, which is not imported by the runtime: its patch is for these alone.
OF_LIGHTNING = {
    "_AcceleratorConnector",
    "_accelerator_flag",
    "_check_and_init_precision",
    "_check_config_and_set_final_flags",
    "_check_strategy_and_fallback",
    "_precision_flag",
    "_strategy_flag",
}


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The private modules and names that a module imports from other packages, by line."""
    for node in ast.walk(tree):
        names = [one.name for one in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            names = [] if node.level else [f"{node.module}.{name}" for name in names]
        yield from (
            (node.lineno, name)
            for name in names
            if any(map(_is_private, name.split("."))) and not name.startswith("torchax_compat.")
        )


def _attributes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The private attributes of objects other than `self` that a module uses, by line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            owner = ast.unparse(node.value)
            is_operator = owner in ("torch.ops.aten", "_aten") and node.attr in instance_attributes.OPERATORS
            known = KNOWN | OF_LIGHTNING if tree is TREES.get(LIGHTNING) else KNOWN
            if not is_operator and node.attr not in known:
                yield node.lineno, f"{owner}.{node.attr}"


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_private_names_of_other_packages_are_in_adapters(file: Path) -> None:
    """Import the name in `adapters/`, or list an attribute of instances in `instance_attributes.py`."""
    assert [] == [*_imports(TREES[file]), *_attributes(TREES[file])]


def test_attributes_that_are_listed_are_used() -> None:
    used = {
        node.attr if isinstance(node, ast.Attribute) else node.value
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    }
    assert set() == READ - used
    assert set() == instance_attributes.OPERATORS - used
    assert set() == ADDED - used
    assert instance_attributes.PARAMETER_MARK in used


def test_attributes_that_are_listed_are_those_that_ruff_allows() -> None:
    settings = tomllib.loads(
        Path(__file__).parents[2].joinpath("src", "ruff.toml").read_text(encoding="utf-8")
    )
    allowed = settings["lint"]["flake8-self"]["extend-ignore-names"]
    listed = READ | ADDED | instance_attributes.OPERATORS | {instance_attributes.PARAMETER_MARK}
    assert sorted(listed | {"_getframe"}) == allowed


@pytest.mark.usefixtures("disabled")
def test_attributes_that_are_missing_or_taken_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [] == instance_attributes.problems()
    monkeypatch.setattr(instance_attributes, "READ", {torch.nn.Module: {"_parameters", "_renamed"}})
    monkeypatch.setattr(instance_attributes, "OPERATORS", {"_to_copy", "_renamed"})
    monkeypatch.setattr(instance_attributes, "ADDED", {torch.Tensor: {"_taken", "_backward_hooks"}})
    monkeypatch.setattr(instance_attributes, "PARAMETER_MARK", "_is_renamed")
    expected = [
        "torch.Tensor._backward_hooks",
        "torch.nn.modules.module.Module._renamed",
        "torch.nn.parameter.Parameter._is_renamed",
        "torch.ops.aten._renamed",
    ]
    assert expected == instance_attributes.problems()
    with pytest.raises(torchax_compat.UnsupportedVersion, match="; ".join(expected)):
        torchax_compat.enable()
    assert not torchax_compat.is_enabled()
