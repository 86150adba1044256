"""The first lines of a new rule: a module and a fixture folder that fail until they are filled."""

from __future__ import annotations

import re
from pathlib import Path

_MODULE = '''"""{summary}.

## What it does
TODO: what is flagged, and what is not.

## Why it matters on TPU
TODO: what happens under torchax, measured by the fixture.

## Fix safety
TODO: safe, unsafe or shown only, and why.
"""

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Rule

rule = Rule("{code}", "{title}", module=__name__, fix=Applicability.SAFE)


@rule.on(ast.Call)
def {name}(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    raise NotImplementedError("TODO")
    yield
'''

_EXAMPLE = """import torch

raise NotImplementedError("TODO")  # want: {code} "TODO"
"""

_CLEAN = """import torch

raise NotImplementedError("TODO: the near misses that must stay silent")
"""


def scaffold(root: Path, group: str, name: str) -> tuple[Path, ...]:
    """Write the files of a rule that is yet to be filled; returns them."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        raise ValueError(f"`{name}` is no rule name: lower case, words joined by underscores")
    if re.match(r"no_", name):
        raise ValueError(f"`{name}` should name the pattern that is found, without the `no_`")
    package = root / "rules" / "tpulint_rules" / group
    if not (package / "__init__.py").is_file():
        raise ValueError(f"there is no group `{group}` in rules/tpulint_rules")
    module = package / f"{name}.py"
    cases = root / "fixtures" / name
    for path in (module, cases):
        if path.exists():
            raise ValueError(f"{path.relative_to(root)} exists already")
    words = {
        "code": _next_code(package),
        "name": name,
        "title": name.replace("_", " "),
        "summary": name.replace("_", " ").capitalize(),
    }
    files = {
        module: _MODULE.format(**words),
        cases / "example" / "before.py": _EXAMPLE.format(**words),
        cases / "clean" / "before.py": _CLEAN,
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tuple(files)


def _next_code(package: Path) -> str:
    """The first free code after those of the group; a group without rules begins a hundred of `TPU`."""
    taken = _codes(package)
    if taken:
        letters, number = max(taken)
        return f"{letters}{number + 1}"
    hundreds = [number // 100 for letters, number in _codes(package.parent) if letters == "TPU"]
    return f"TPU{(max(hundreds, default=0) + 1) * 100 + 1}"


def _codes(folder: Path) -> list[tuple[str, int]]:
    """Letters and numbers of the codes below a folder, from the text: a half-written rule need not import."""
    texts = [path.read_text(encoding="utf-8") for path in folder.rglob("*.py")]
    found = [code for text in texts for code in re.findall(r'Rule\(\s*"([A-Z]+)(\d{3})"', text)]
    return [(letters, int(number)) for letters, number in found]
