"""What each step of tidying changes in a fixed file, and what it leaves."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tpulint.engine.line_length import Widths
from tpulint.tidy import tidied
from tpulint.tidy.blocks import without_empty_blocks
from tpulint.tidy.choices import without_equal_choices
from tpulint.tidy.comments import without_orphans
from tpulint.tidy.functions import defined
from tpulint.tidy.imports import marked, sorted_like
from tpulint.tidy.long_lines import wrapped
from tpulint.tidy.text import new_rows
from tpulint.tidy.variables import without_unused


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("if a:\n    f()\ng()\n", "if a:\n    pass\ng()\n", "g()\n"),
        ("if a():\n    f()\ng()\n", "if a():\n    pass\ng()\n", "if a():\n    pass\ng()\n"),
        ("if a:\n    pass\ng()\n", "if a:\n    pass\ng()\n", "if a:\n    pass\ng()\n"),
        ("if a:\n    f()\nelse:\n    g()\n", "if a:\n    pass\nelse:\n    g()\n", "if not a:\n    g()\n"),
        ("if not a:\n    f()\nelse:\n    g()\n", "if not a:\n    pass\nelse:\n    g()\n", "if a:\n    g()\n"),
        (
            "if a == 1:\n    f()\nelse:\n    g()\n",
            "if a == 1:\n    pass\nelse:\n    g()\n",
            "if a != 1:\n    g()\n",
        ),
        ("if a:\n    f()\nelse:\n    g()\n", "if a:\n    f()\nelse:\n    pass\n", "if a:\n    f()\n"),
        (
            "if a:\n    f()\nelif b:\n    g()\nelse:\n    h()\n",
            "if a:\n    f()\nelif b:\n    pass\nelse:\n    h()\n",
            "if a:\n    f()\nelif b:\n    pass\nelse:\n    h()\n",
        ),
        (
            "if a:\n    f()\nelif b:\n    g()\n",
            "if a:\n    f()\nelif b:\n    pass\n",
            "if a:\n    f()\n",
        ),
        ("def f():\n    g()\n", "def f():\n    pass\n", "def f():\n    pass\n"),
        ("for a in b:\n    g()\n", "for a in b:\n    pass\n", "for a in b:\n    pass\n"),
        (
            "if a:  # why\n    f()\ng()\n",
            "if a:  # why\n    pass\ng()\n",
            "if a:  # why\n    pass\ng()\n",
        ),
    ],
)
def test_a_condition_goes_with_the_statement_that_it_was_for(before: str, after: str, expected: str) -> None:
    assert expected == without_empty_blocks(before, after)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("x = (a if c else a)\n", "x = a\n"),
        ("x = f(a if c else a)\n", "x = f(a)\n"),
        ("x = a + b if c else a + b\n", "x = (a + b)\n"),
        ("x = a if c() else a\n", "x = a if c() else a\n"),
        ("x = a if queue.get() else a\n", "x = a if queue.get() else a\n"),
        ("x = a if os.environ.get('C') else a\n", "x = a\n"),
        ("def f():\n    return (a if c else a)\n", "def f():\n    return a\n"),
        ("def f():\n    return(a if c else a)\n", "def f():\n    return(a)\n"),
        ("x = a if c else b\n", "x = a if c else b\n"),
        ("x = [a if hasattr(c, 'd') else a]\n", "x = [a]\n"),
    ],
)
def test_a_choice_between_equal_values_is_the_value(after: str, expected: str) -> None:
    assert expected == without_equal_choices("x = 1\n", after)


def test_a_choice_of_the_author_stays() -> None:
    text = "x = a if c else a\n"
    assert text == without_equal_choices(text, text)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("def f():\n    a = 1\n    g(a)\n", "def f():\n    a = 1\n    g(2)\n", "def f():\n    g(2)\n"),
        ("def f():\n    a = h()\n    g(a)\n", "def f():\n    a = h()\n    g(2)\n", None),
        ("def f():\n    a = 1\n    g(2)\n", "def f():\n    a = 1\n    g(2)\n", None),
        ("def f():\n    a = 1  # why\n    g(a)\n", "def f():\n    a = 1  # why\n    g(2)\n", None),
        (
            "def f():\n    global a\n    a = 1\n    g(a)\n",
            "def f():\n    global a\n    a = 1\n    g(2)\n",
            None,
        ),
        ("a = 1\ng(a)\n", "a = 1\ng(2)\n", None),
        (
            "def f(c):\n    if c:\n        a = 1\n    else:\n        a = 2\n    g(a)\n",
            "def f(c):\n    if c:\n        a = 1\n    else:\n        a = 2\n    g(2)\n",
            "def f(c):\n    g(2)\n",
        ),
        (
            "def f():\n    a = b = 1\n    g(a)\n    return locals()\n",
            "def f():\n    a = 1\n    g(2)\n    return locals()\n",
            None,
        ),
    ],
)
def test_a_variable_goes_with_its_last_use(before: str, after: str, expected: str | None) -> None:
    assert (after if expected is None else expected) == without_unused(before, after)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("# why\nf()\n\ng()\n", "# why\n\ng()\n", "\ng()\n"),
        ("# why\nf()\ng()\n", "# why\ng()\n", None),
        ("# why\nf()\nh()\n\ng()\n", "# why\n\ng()\n", "\ng()\n"),
        ("# why\nf()\n\ng()\n", "# why\nh()\n\ng()\n", None),
        ("#!/usr/bin/python\nf()\n\ng()\n", "#!/usr/bin/python\n\ng()\n", None),
        (
            "if a:\n    g()\n    # why\n    # so\n    f()\nh()\n",
            "if a:\n    g()\n    # why\n    # so\nh()\n",
            "if a:\n    g()\nh()\n",
        ),
        ("# why\nf()\n# how\ng()\n", "# why\n# how\ng()\n", "# how\ng()\n"),
    ],
)
def test_a_comment_goes_with_its_paragraph(before: str, after: str, expected: str | None) -> None:
    assert (after if expected is None else expected) == without_orphans(before, after)


def test_an_import_for_its_effect_says_so() -> None:
    after = "import torch\nimport torchax_compat\nx = torch.ones(2)\n"
    expected = "import torch\nimport torchax_compat  # noqa: F401\nx = torch.ones(2)\n"
    assert expected == marked("import torch\nx = torch.ones(2)\n", after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch; import os\ntorch.f()\n", "import os\nf()\n"),
        ("import os; import torch; torch.f()\n", "import os; import torch; f()\n"),
    ],
)
def test_an_import_of_the_author_gets_no_comment(before: str, after: str) -> None:
    assert after == marked(before, after)


def test_sorted_imports_stay_sorted() -> None:
    before = (
        "import os\n\nimport torch\nfrom torchvision.io import read_file\n\nprint(os, torch, read_file)\n"
    )
    after = before.replace("import torch\n", "import torch\nfrom PIL import Image\nimport numpy as np\n")
    expected = before.replace("import torch\n", "import numpy as np\nimport torch\nfrom PIL import Image\n")
    assert expected == sorted_like(before, after, 88)


def test_unsorted_imports_stay_as_they_are() -> None:
    before = "import torch\nimport os\n\nprint(os, torch)\n"
    after = "import torch\nimport jax\nimport os\n\nprint(os, torch)\n"
    assert after == sorted_like(before, after, 88)


def test_a_lambda_with_a_name_is_a_function() -> None:
    after = "import torch\n\nmade = lambda *data: torch.LongTensor(*data)\nprint(made([1]))\n"
    expected = (
        "import torch\n\n\ndef made(*data):\n    return torch.LongTensor(*data)\n\n\nprint(made([1]))\n"
    )
    assert expected == defined("import torch\n\nmade = torch.LongTensor\nprint(made([1]))\n", after)


LONG = "a" * 30


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"x = f({LONG}, {LONG})", f"x = f(\n    {LONG}, {LONG}\n)"),
        (f"x = f({LONG}, {LONG}, {LONG})", f"x = f(\n    {LONG},\n    {LONG},\n    {LONG},\n)"),
        (f"x = {LONG} + {LONG} + {LONG}", f"x = (\n    {LONG}\n    + {LONG}\n    + {LONG}\n)"),
        (f"x = {LONG} if {LONG} else {LONG}", f"x = (\n    {LONG}\n    if {LONG}\n    else {LONG}\n)"),
        (f"x = {LONG}, {LONG}, {LONG}", f"x = (\n    {LONG},\n    {LONG},\n    {LONG},\n)"),
        (f"return [f({LONG}) for a in {LONG}]", f"return [\n    f({LONG})\n    for a in {LONG}\n]"),
        (f"x = f({LONG}, {LONG})  # why", None),
        (f"x = '{LONG * 3}'", None),
        (f"x = f({LONG}, {LONG}); y = 1", None),
    ],
)
def test_a_long_line_is_split_as_formatters_do(line: str, expected: str | None) -> None:
    after = f"def g():\n    {line}\n"
    wanted = line if expected is None else expected.replace("\n", "\n    ")
    made = wrapped("", after, 70)
    assert f"def g():\n    {wanted}\n" == made
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(made))


def test_a_form_feed_ends_no_line() -> None:
    before = f'"""\x0c\u2028"""\nimport os\nx = f({LONG}, os)\nif a:\n    g()\nh()\n'
    after = before.replace("    g()", "    pass").replace(", os)", f", {LONG})")
    expected = f'"""\x0c\u2028"""\nx = f(\n    {LONG}, {LONG}\n)\nh()\n'
    assert expected == tidied(before, after, is_package=False, width=66)


def test_a_long_line_of_the_author_stays() -> None:
    text = f"x = f({LONG}, {LONG})\n"
    assert text == wrapped(text, text, 50)


def test_lines_end_as_the_file_has_them() -> None:
    before = "import torch\r\nx = torch.ones(2)\r\n"
    after = f"import torch\r\nimport torchax\r\nx = torch.ones({LONG}, {LONG}, {LONG})\r\n"
    made = tidied(before, after, is_package=False, width=70)
    assert made.count("\n") == made.count("\r\n") > 4


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("pyproject.toml", "[tool.ruff]\nline-length = 100\n", 100),
        ("pyproject.toml", "[tool.black]\nline-length = 120\n", 120),
        ("ruff.toml", "line-length = 79\n", 79),
        ("setup.cfg", "[flake8]\nmax-line-length = 119\n", 119),
        ("setup.cfg", "[flake8\n", 88),
        ("pyproject.toml", "[tool\n", 88),
    ],
)
def test_the_line_length_of_the_project(tmp_path: Path, name: str, text: str, expected: int) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / name).write_text(text)
    (tmp_path / "src").mkdir()
    assert expected == Widths().of(str(tmp_path / "src" / "a.py"), b"x = 1\n")


def test_without_a_stated_line_length_the_longest_line_counts(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert 93 == Widths().of(str(tmp_path / "a.py"), b"x" * 93 + b"\n")


def test_lines_that_repeat_are_compared_in_time() -> None:
    same = "y = x\n" * 20_000
    assert {1, 20_002} == new_rows(f"a\n{same}b\n", f"c\n{same}d\n")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a\nb\n", "a\nb\n", set()),
        ("", "a\n", {1}),
        ("a\n", "", set()),
        ("a\na\n", "a\n", set()),
        ("a\n", "a\na\n", {2}),
        ("a\nb\nc\n", "a\nc\n", set()),
        ("a\nb\nc\nd\n", "x\nb\ny\nd\n", {1, 3}),
    ],
)
def test_the_rows_that_are_new(before: str, after: str, expected: set[int]) -> None:
    assert expected == new_rows(before, after)
