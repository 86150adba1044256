"""Sharding rules for the linear layers that the classes of a project create, by the names of the layers."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tpulint.knowledge.sharding import dimensions

#: The last part of the name of what creates a linear layer.
_LAYERS = frozenset({"Linear", "NonDynamicallyQuantizableLinear", "Linear4bit", "Linear8bitLt"})


def proposed(trees: Iterable[ast.Module]) -> dict[str, tuple[str, ...]]:
    """For each pattern of names of parameters, the dimensions of the mesh that a rule gives them."""
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
    """The names of linear layers, and whether each has a bias.

    The first layer of a list or `Sequential` has the suffix `.0`, as `to_out` of diffusers.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                first = _first(value)
                if _is_layer(value):
                    yield name, _has_bias(value)
                elif _is_layer(first):
                    yield f"{name}.0", _has_bias(first)


def _first(value: ast.expr) -> ast.expr | None:
    """The first argument of a call, or the first item of the list in its place."""
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
    """The lines of the setting `sharding`, for pyproject.toml."""
    yield "[tool.tpulint.sharding]"
    for pattern, given in rules.items():
        dimensions = ", ".join(f'"{one}"' for one in given)
        yield f"'{pattern}' = [{dimensions}]"
