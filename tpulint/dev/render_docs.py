"""The generated pages: one for each rule, from its docstring and its `example` case, an index, and others."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

from tpulint.dev import api_page, coverage, evidence, programs_page, runtime_page, tpu_costs
from tpulint.fixture import SINGLE, Case, cases, strip_wants
from tpulint.project_files.kinds import kind_of
from tpulint.registry import rules
from tpulint.report.page import summary, text
from tpulint.rules_api import Rule

#: How Markdown calls the language of files that are not Python.
_LANGUAGES = {"shell script": "bash", "YAML": "yaml", "conda environment": "yaml", "TOML": "toml"}
_LANGUAGES |= {"pyproject": "toml", "Dockerfile": "dockerfile", "requirements": "text", "variables": "text"}
_GENERATED = (
    "<!-- Written by `python -m tpulint.dev render-docs` from the rules' docstrings and fixtures. -->\n"
)
_FIXES = {None: "none", "display": "shown only", "safe": "safe", "unsafe": "unsafe"}
_INDEX = """\
# Rules

A rule has a code, which never changes, and a name; both can be used in settings and suppressions.
`tpulint explain CODE` prints a rule's page.

The column *fix* says how safe the best fix of the rule is:

- **safe**: the results stay the same in a program that runs in the torchax environment; applied by
  `tpulint fix`.
- **unsafe**: valid code that may behave differently, as the rule's page describes; applied with
  `--unsafe-fixes`.
- **none**: the rule's page says what to do by hand.
"""


def stale(root: Path) -> list[Path]:
    """The files of a checkout that are not what they would be if they were written now."""
    wanted = _files(root)
    odd = [path for path in sorted((root / "docs" / "rules").glob("*.md")) if path not in wanted]
    return odd + [path for path, content in wanted.items() if _content(path) != content]


def write(root: Path) -> None:
    """Bring every generated page up to date."""
    wanted = _files(root)
    for path in stale(root):
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()


def _content(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _files(root: Path) -> Mapping[Path, str]:
    """Path and content of everything that is generated."""
    folder = root / "docs" / "rules"
    # Other installed packages may register rules as well; these are the checkout's.
    own = [rule for rule in rules() if Path(sys.modules[rule.module].__file__ or "").is_relative_to(root)]
    examples = {case.rule: case for case in cases(root / "fixtures") if case.name == "example"}
    files = {folder / f"{rule.name}.md": _page(rule, examples.get(rule.folder)) for rule in own}
    files[folder / "README.md"] = f"{_GENERATED}\n{_INDEX}\n{_tables(own)}"
    if (root / "tpulint" / "rules_api").is_dir():
        files[root / api_page.PAGE] = api_page.render()
    if (root / coverage.ROWS).is_file():
        files[root / coverage.PAGE], files[root / coverage.DATA] = coverage.rendered(root)
    if (root / runtime_page.SOURCE).is_dir():
        files[root / runtime_page.PAGE] = runtime_page.render(root)
    if (root / programs_page.DATA).is_file():
        files[root / programs_page.PAGE] = programs_page.render(root)
    if (root / evidence.DATA).is_file():
        files[root / evidence.PAGE] = evidence.render(root)
    if (root / tpu_costs.DATA).is_file():
        files[root / tpu_costs.PAGE] = tpu_costs.render(root)
    return files


def _page(rule: Rule, example: Case | None) -> str:
    parts = [_GENERATED, text(rule)]
    if example is not None:
        parts += ["## Example", _code(example.before)]
        if example.after is not None and example.after != example.before:
            parts += ["After the fix:", _code(example.after)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _code(files: Mapping[str, str]) -> str:
    blocks = []
    for path, source in sorted(files.items()):
        title = "" if path == SINGLE else f"`{path}`\n\n"
        language = "python" if path.endswith(".py") else kind_of(path) or ""
        blocks.append(
            f"{title}```{_LANGUAGES.get(language, language)}\n{strip_wants(source, path).strip()}\n```"
        )
    return "\n\n".join(blocks)


def _tables(own: list[Rule]) -> str:
    parts = []
    for title, group in groupby(own, key=lambda rule: rule.family_title):
        rows = [
            f"| {rule.code} | [{rule.name}]({rule.name}.md) | {summary(rule)} | {rule.severity} | "
            f"{_FIXES[rule.fixable]} |\n"
            for rule in group
        ]
        head = "| code | name | reports | severity | fix |\n| --- | --- | --- | --- | --- |\n"
        parts.append(f"## {title}\n\n{head}{''.join(rows)}")
    return "\n".join(parts)
