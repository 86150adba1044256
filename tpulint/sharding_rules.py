"""Sharding rules for the linear layers of a project, by the names of the layers."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tpulint.knowledge.sharding import dimensions

#: The names of classes of linear layers, without their modules.
_LAYERS = frozenset({"Linear", "NonDynamicallyQuantizableLinear", "Linear4bit", "Linear8bitLt"})


def propose_rules(trees: Iterable[ast.Module]) -> dict[str, tuple[str, ...]]:
    """The sharding rules for the linear layers whose names are known.

    Args:
        trees: the syntax trees of the files of a project.

    Returns:
        For each regular expression of parameter names, the axis of the mesh that splits each dimension of the
        parameter; "" for a dimension that is not split.
    """
    found: dict[str, tuple[str, ...]] = {}
    layers = {name: has_bias for tree in trees for name, has_bias in _layers(tree)}
    for name, has_bias in layers.items():
        of_weight, of_bias = dimensions(name.removesuffix(".0")) or ((), ())
        path = name.replace(".", "\\.")
        if of_weight:
            found[rf".*\.{path}\.weight"] = of_weight
        if of_bias and has_bias:
            found[rf".*\.{path}\.bias"] = of_bias
    return found


def _layers(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """The names of linear layers that are attributes, and whether each has a bias.

    The first layer of a list or `Sequential` has the suffix `.0`, such as `to_out.0` in diffusers.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                first = _first_layer(value)
                if _is_layer(value):
                    yield name, _has_bias(value)
                elif _is_layer(first):
                    yield f"{name}.0", _has_bias(first)


def _first_layer(value: ast.expr) -> ast.expr | None:
    """The first argument of a call, or its first item if it is a list or tuple."""
    given = value.args[0] if isinstance(value, ast.Call) and value.args else None
    return given.elts[0] if isinstance(given, ast.List | ast.Tuple) and given.elts else given


def _is_layer(value: ast.expr | None) -> bool:
    if not isinstance(value, ast.Call):
        return False
    name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
    return name in _LAYERS


def _has_bias(call: Any) -> bool:
    given = next((word.value for word in call.keywords if word.arg == "bias"), None)
    if len(call.args) > 2:
        given = call.args[2]
    return not (isinstance(given, ast.Constant) and given.value is False)


def as_toml(rules: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """The lines of the table `[tool.tpulint.sharding]` in pyproject.toml."""
    yield "[tool.tpulint.sharding]"
    for pattern, axes in rules.items():
        listed = ", ".join(f'"{one}"' for one in axes)
        yield f"'{pattern}' = [{listed}]"
