"""Source text as a `Module` with linked project facts, and the nodes in it."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Mapping

import pytest

from tests.rewriting import applied
from tpulint.engine.run import as_units
from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.tracing.reach import link
from tpulint.model.training.losses import backward_calls
from tpulint.model.values.kinds import Device, Instance, Kind, Several, Static, Tensor
from tpulint.source import Source


@pytest.fixture(scope="session")
def parse_project() -> Callable[[Mapping[str, str]], dict[str, Module]]:
    """The modules of a project, by file name, all of them linked with one another."""

    def parse(files: Mapping[str, str]) -> dict[str, Module]:
        units = as_units({name: textwrap.dedent(text).encode() for name, text in files.items()})
        modules = {
            name: Module(Source.decode(name, unit.data), unit.module_path) for name, unit in units.items()
        }
        project = link([module.facts() for module in modules.values()])
        for module in modules.values():
            module.enter(project)
        return modules

    return parse


@pytest.fixture(scope="session")
def parse(parse_project: Callable[[Mapping[str, str]], dict[str, Module]]) -> Callable[[str], Module]:
    """The module of a project that has one file, `app.py`."""
    return lambda text: parse_project({"app.py": text})["app.py"]


@pytest.fixture(scope="session")
def find() -> Callable[..., tuple[ast.expr, Scope]]:
    """An expression by its text, with its scope; the first one unless an occurrence is given."""

    def find(module: Module, text: str, occurrence: int = 0) -> tuple[ast.expr, Scope]:
        wanted = ast.unparse(ast.parse(text, mode="eval"))
        nodes = [node for node in ast.walk(module.source.tree) if isinstance(node, ast.expr)]
        nodes.sort(key=lambda node: (node.lineno, node.col_offset))
        node = [node for node in nodes if ast.unparse(node) == wanted][occurrence]
        return node, module.scope_of(node)

    return find


@pytest.fixture(scope="session")
def find_statement() -> Callable[..., tuple[ast.stmt, Scope]]:
    """A statement by how its text starts, with its scope; the first one unless an occurrence is given."""

    def find_statement(module: Module, start: str, occurrence: int = 0) -> tuple[ast.stmt, Scope]:
        nodes = [node for node in ast.walk(module.source.tree) if isinstance(node, ast.stmt)]
        nodes.sort(key=lambda node: (node.lineno, node.col_offset))
        node = [node for node in nodes if ast.unparse(node).startswith(start)][occurrence]
        return node, module.scope_of(node)

    return find_statement


@pytest.fixture(scope="session")
def find_function() -> Callable[[Module, str], Scope]:
    """The scope of a function by its qualified name within the file, such as `Net.forward`."""

    def find_function(module: Module, name: str) -> Scope:
        return next(scope for scope in module.index.functions if scope.qualname == name)

    return find_function


@pytest.fixture(scope="session")
def outline() -> Callable[[Module], str]:
    """The text of a file in which the computation of its last loss is a function, or why it is not."""

    def outline(module: Module) -> str:
        loss, scope = list(backward_calls(module))[-1]
        moved = module.training_steps.of(loss, scope).moved()
        return moved if isinstance(moved, str) else applied(module.source, *moved)

    return outline


@pytest.fixture(scope="session")
def describe() -> Callable[[Kind], str]:
    """The type of a value in words, such as `Tensor[bool, scalar]`; `Tensor?` may be something else."""

    def describe(kind: Kind) -> str:
        match kind:
            case Tensor():
                details = [kind.dtype, "scalar" if kind.scalar else "", "host" if kind.is_host else ""]
                known = ", ".join(filter(None, details))
                return "Tensor" + ("" if kind.certain else "?") + (f"[{known}]" if known else "")
            case Static(value=value):
                return "Static" if value is ... else f"Static[{value!r}]"
            case Device(type=name):
                return f"Device[{name}]" if name else "Device"
            case Instance(cls=cls):
                return f"Instance[{cls}]"
            case Several(items=None):
                return f"[{describe(kind.element)}]"
            case Several(items=items):
                return f"({', '.join(map(describe, items or ()))})"
        return type(kind).__name__

    return describe


@pytest.fixture(scope="session")
def infer(parse: Callable[[str], Module], describe: Callable[[Kind], str]) -> Callable[..., str]:
    """The inferred type, in words, of the last `out` in the `forward` of a module with the given body."""

    def infer(body: str, head: str = "", name: str = "forward") -> str:
        lines = textwrap.indent(body, "        ")
        module = parse(f"{_MODULE}{textwrap.dedent(head)}\n{_FORWARD.replace('forward', name)}{lines}\n")
        scope = next(scope for scope in module.index.functions if scope.qualname == f"Net.{name}")
        nodes = [node for node in ast.walk(scope.node) if isinstance(node, ast.Name) and node.id == "out"]
        return describe(module.kind(max(nodes, key=lambda node: (node.lineno, node.col_offset)), scope))

    return infer


_MODULE = """
import math
import einops
import numpy as np
import torch
from torch import nn
"""
_FORWARD = """
class Net(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.lstm = nn.LSTM(2, 2)
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
        self.register_buffer("buffer", torch.ones(3))
        self.size = size
    def forward(
        self, x: torch.Tensor, mask: torch.BoolTensor, ids: torch.LongTensor, n: int, unknown,
        device: torch.device, xs: list[torch.Tensor], array: np.ndarray, optional: torch.Tensor = None,
    ):
"""
