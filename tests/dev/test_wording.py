"""Pages, help and rule texts are in the words of PyTorch's and JAX's documentation; see tests/wording.py.

Messages and titles of findings are checked on all fixture cases, in tests/rules/test_fixtures.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.wording import odd_words
from tpulint.cli import cli
from tpulint.registry import rules

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def strings(tree: ast.Module) -> Iterator[str]:
    """The sentences of a file that users may see: strings with a space, other than docstrings."""
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield from [node.value] if " " in node.value else []


@pytest.mark.parametrize("page", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES])
def test_pages_use_no_odd_words(page: Path) -> None:
    assert [] == odd_words(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["tpulint", *cli.commands])
def test_help_uses_no_odd_words(name: str) -> None:
    command = cli.commands.get(name, cli)
    assert [] == odd_words(command.get_help(click.Context(command)))


def test_summaries_use_no_odd_words() -> None:
    assert [] == [fault for rule in rules() for fault in odd_words(rule.summary)]


def test_conditions_that_explain_at_quotes_use_no_odd_words() -> None:
    folder = ROOT / "rules" / "tpulint_rules"
    files = {*(ROOT / "tpulint" / "rules_api").glob("*.py"), *folder.rglob("*.py")}
    trees = (ast.parse(path.read_text("utf-8")) for path in sorted(files))
    functions = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    quoted = (ast.get_docstring(node) or "" for node in functions)
    quoted = (t for t in quoted if t.startswith("Whether ") or (t.startswith("The ") and "None" in t))
    found = [text.partition("\n\n")[0] for text in quoted]
    assert len(found) > 100
    assert [] == [fault for text in found for fault in odd_words(text)]


def test_reports_and_errors_use_no_odd_words() -> None:
    folder = ROOT / "tpulint"
    files = [*folder.glob("*.py"), *(folder / "engine").glob("*.py"), *(folder / "report").glob("*.py")]
    found = (text for path in sorted(files) for text in strings(ast.parse(path.read_text("utf-8"))))
    assert [] == [fault for text in found for fault in odd_words(text)]


@pytest.mark.parametrize(
    "text",
    [
        "handler for the want of CUDA memory",
        "a tensor of unknown kind is handed on",
        "who doubts a finding asks `explain`",
        "Program of torch in torchax alone.",
        "function that does not do its work under torchax",
        "attributes of what modules leave in their attributes",
    ],
)
def test_sentences_of_the_old_dialect_are_found(text: str) -> None:
    assert odd_words(text)


@pytest.mark.parametrize(
    "text",
    ["moves the tensor in place to the device", "`handed` code and [a link](other/told.md)", "by hand"],
)
def test_plain_sentences_and_code_are_accepted(text: str) -> None:
    assert [] == odd_words(text)
