"""What a file shows by itself, without a project and without inferred types."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable

import pytest

from tpulint.model.syntax.parsed_file import ModulePath, ParsedFile
from tpulint.source import Source

TEXT = """\
import torch

class Net:
    def __init__(self, size):
        self.size = size
        self.scale = torch.ones(size)

    def grow(self):
        if self.size:
            self.size = 2 * self.size
            print(self.size)

def other(net):
    net.size = 3
    return net
"""


@pytest.fixture
def file() -> ParsedFile:
    return ParsedFile(Source("lib/net.py", TEXT), ModulePath("lib.net"))


def found(file: ParsedFile, text: str) -> ast.AST:
    return next(node for node in ast.walk(file.source.tree) if is_written(node, text))


def is_written(node: ast.AST, text: str) -> bool:
    return isinstance(node, ast.expr | ast.stmt) and ast.unparse(node) == text


def texts(nodes: list[ast.stmt] | list[ast.expr]) -> list[str]:
    return [ast.unparse(node) for node in nodes]


def test_functions_go_by_their_qualified_names(file: ParsedFile) -> None:
    assert ["lib.net.Net.__init__", "lib.net.Net.grow", "lib.net.other"] == [*file.functions]


def test_names_are_qualified_by_the_imports_of_the_file(file: ParsedFile) -> None:
    call = found(file, "torch.ones(size)")
    assert isinstance(call, ast.Call)
    scope = file.functions["lib.net.Net.__init__"]
    assert "torch.ones" == file.names.qualified(call.func, scope)
    assert "lib.net.other" == file.names.qualified(ast.parse("other", mode="eval").body, scope)


def test_values_assigned_to_attributes_go_by_class_and_attribute(file: ParsedFile) -> None:
    assigned = {key: texts([value for value, _ in values]) for key, values in file.assignments.items()}
    assert {
        ("lib.net.Net", "size"): ["size", "2 * self.size"],
        ("lib.net.Net", "scale"): ["torch.ones(size)"],
    } == assigned


def test_values_assigned_to_what_is_no_name_go_by_its_text(file: ParsedFile) -> None:
    assert {
        "self.size": ["size", "2 * self.size"],
        "self.scale": ["torch.ones(size)"],
        "net.size": ["3"],
    } == {text: texts(values) for text, values in file.assigned.items()}


def test_loads_are_all_reads_of_a_name(file: ParsedFile) -> None:
    assert [14, 15] == sorted(name.lineno for name in file.loads["net"])


def test_nodes_around_a_node(file: ParsedFile) -> None:
    node = found(file, "print(self.size)")
    around = [type(outer).__name__ for outer in file.ancestors(node)]
    assert ["If", "FunctionDef", "ClassDef", "Module"] == around
    assert file.source.tree is [*file.ancestors(node)][-1]
    assert None is file.parent(file.source.tree)


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda file, statement: [file.statement(statement.value)], ["print(self.size)"]),
        (ParsedFile.block, ["self.size = 2 * self.size", "print(self.size)"]),
        (ParsedFile.before, ["self.size = 2 * self.size"]),
    ],
)
def test_statements_around_an_expression(
    file: ParsedFile, ask: Callable[[ParsedFile, ast.stmt], list[ast.stmt]], expected: list[str]
) -> None:
    statement = file.statement(found(file, "print(self.size)"))
    assert expected == texts(ask(file, statement))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (ModulePath("lib.net"), "lib.near"),
        (ModulePath("lib", package=True), "lib.near"),
        (ModulePath("net"), "lib.near"),
    ],
)
def test_relative_imports_start_from_the_package_of_the_file(path: ModulePath, expected: str) -> None:
    file = ParsedFile(Source("lib/net.py", "from . import near\nnear\n"), path)
    name = ast.parse("near", mode="eval").body
    assert expected == file.names.qualified(name, file.index.module)


def test_a_module_beside_the_file_goes_by_its_unique_name() -> None:
    path = ModulePath("net#2", renamed=(("utils", "utils#2"),))
    file = ParsedFile(Source("lib/net.py", "import utils\n"), path)
    call = ast.parse("utils.load", mode="eval").body
    assert "utils#2.load" == file.names.qualified(call, file.index.module)


def test_a_file_is_parsed_without_the_project_or_inference() -> None:
    code = "import sys, tpulint.model.syntax.parsed_file; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = [name for name in done.stdout.split() if name.startswith("tpulint.model.")]
    folders = {name.split(".")[2] for name in loaded}
    assert {"names", "syntax"} == folders
