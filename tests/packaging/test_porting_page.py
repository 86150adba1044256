"""The rule of docs/porting-fixit-rules.md, as Fixit has it and as tpulint has it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper

from tpulint.fixture import strip_wants

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "porting-fixit-rules.md").read_text(encoding="utf-8")
FIXIT, RULE, BEFORE, AFTER, CLEAN, PATTERN = re.findall(
    r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
)
CASES_TEST = next(
    block
    for block in re.findall(
        r"^```python\n(.*?)^```$",
        (ROOT / "docs/writing-rules.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    if "import pytest" in block
)

pytestmark = pytest.mark.xdist_group("packaging")


class LintRule(cst.CSTVisitor):
    """What the rule of the page needs of Fixit: it notes replacements."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[cst.CSTNode, cst.CSTNode]] = []

    def report(self, node: cst.CSTNode, message: str, *, replacement: cst.CSTNode) -> None:
        assert message
        self.found.append((node, replacement))


class Replaced(cst.CSTTransformer):
    """Puts nodes in the place of others, by the identity of these."""

    def __init__(self, replacements: dict[int, cst.CSTNode]) -> None:
        super().__init__()
        self._replacements = replacements

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        return self._replacements.get(id(original_node), updated_node)


@pytest.fixture
def fixit_rule(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class of the Fixit rule; Fixit itself is not installed."""
    stand_in = ModuleType("fixit")
    vars(stand_in).update(
        LintRule=LintRule, Valid=lambda code: code, Invalid=lambda code, **rest: (code, rest)
    )
    monkeypatch.setitem(sys.modules, "fixit", stand_in)
    names: dict[str, Any] = {}
    exec(compile(FIXIT, "reentrant_checkpoint.py", "exec"), names)  # the page's own code
    return names["ReentrantCheckpoint"]


def fixed_by(rule: Any, text: str) -> str:
    """A file with the replacements of a Fixit rule."""
    wrapper, visitor = MetadataWrapper(cst.parse_module(text)), rule()
    wrapper.visit(visitor)
    replacements = {id(node): replacement for node, replacement in visitor.found}
    return wrapper.module.visit(Replaced(replacements)).code


def test_rule_of_fixit_does_what_its_cases_say(fixit_rule: Any) -> None:
    assert fixit_rule.VALID == [fixed_by(fixit_rule, code) for code in fixit_rule.VALID]
    [(code, rest)] = fixit_rule.INVALID
    assert rest["expected_replacement"] == fixed_by(fixit_rule, code)


def test_rule_of_fixit_gives_the_code_after_the_fix(fixit_rule: Any) -> None:
    assert AFTER == fixed_by(fixit_rule, strip_wants(BEFORE))


@pytest.mark.parametrize("form", ["node of ast", "pattern"])
def test_cases_pass_with_the_rule_of_tpulint(tmp_path: Path, form: str) -> None:
    text = RULE if form == "node of ast" else f"{RULE[: RULE.index('@rule.on')]}{PATTERN}"
    cases = "tests/fixtures/reentrant_checkpoint"
    files = {
        "acme_torch_rules/__init__.py": '"""Rules of Acme."""\n',
        "acme_torch_rules/reentrant_checkpoint.py": text,
        f"{cases}/example/before.py": BEFORE,
        f"{cases}/example/after.py": AFTER,
        f"{cases}/clean/before.py": CLEAN,
        "tests/test_rules.py": CASES_TEST,
        "acme-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: acme\nVersion: 1\n",
        "acme-1.dist-info/entry_points.txt": "[tpulint.rules]\nacme = acme_torch_rules\n",
    }
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tmp_path, ROOT, ROOT / "rules")))},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr
