"""`float(x)`, `int(x)` and `isinstance(x, int)` in the files of a program, while a function is traced."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

import pytest
from torchax_compat.jit import scalar_casts

USES = {
    "called": ("a = float(x) + int(y)", set()),
    "asked about": ("isinstance(x, float), issubclass(bool, int)", set()),
    "compared": ("type(x) == float, type(x) in (int, float)", set()),
    "annotated": ("def f(x: int) -> float:\n    y: float = x\n    return y", set()),
    "type of an argument of a command": ("parser.add_argument('--rate', type=float)", set()),
    "passed on": ("list(map(float, x))", {"float"}),
    "kept": ("kinds = {'a': int}", {"int"}),
    "compared by identity": ("type(x) is int", {"int"}),
}


@pytest.mark.parametrize("name", USES)
def test_names_that_are_used_otherwise_than_called(name: str) -> None:
    text, expected = USES[name]
    assert expected == set(scalar_casts._used_otherwise(ast.parse(text))) & {"int", "float"}


def module(path: Path, text: str) -> ModuleType:
    path.write_text(text)
    made = ModuleType(path.stem)
    made.__file__ = str(path)
    exec(compile(text, path, "exec"), vars(made))
    return made


def test_names_stand_for_others_in_files_that_only_call_them(tmp_path: Path) -> None:
    calling = module(tmp_path / "calling.py", "import math\ndef f(x):\n    return float(x), math.exp(x)\n")
    with scalar_casts.replaced(calling.f, []):
        inner = vars(calling)["float"]
        assert (1.5, 2) == (inner("1.5"), vars(calling)["int"](2.7))
        assert isinstance(1.5, inner) and issubclass(float, inner) and inner == float  # noqa: E721
        assert hash(float) == hash(inner) and not isinstance(1, inner)
    assert "float" not in vars(calling) and 1.0 == calling.f(0)[1]


def test_file_that_cannot_be_read_keeps_the_names_of_python(tmp_path: Path) -> None:
    calling = module(tmp_path / "gone.py", "def f(x):\n    return float(x)\n")
    (tmp_path / "gone.py").unlink()
    with scalar_casts.replaced(calling.f, []):
        assert "float" not in vars(calling)


def test_classes_and_wrapped_functions_lead_to_their_files(tmp_path: Path) -> None:
    text = "import functools\nclass A:\n    @staticmethod\n    def f(x):\n        return int(x)\n"
    text += "    @classmethod\n    def g(cls, x):\n        return int(x)\n"
    made = module(tmp_path / "classes.py", text)
    for one in (made.A, made.A.f, made.A.g):
        with scalar_casts.replaced(one, []):
            assert "int" in vars(made)
