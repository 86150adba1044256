"""Rewrites the `after` files of fixture cases to what `fix` gives today; read the diff before keeping it.

Run `python -m tpulint.dev.bless [RULE/CASE]...` in the repository.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tpulint.fixture import Case, cases, strip_wants
from tpulint.testing import fixed


def main(names: list[str]) -> None:
    """Bless the named cases, or all."""
    for case in cases(Path("fixtures")):
        if not names or f"{case.rule}/{case.name}" in names or case.rule in names:
            _bless(case)


def _bless(case: Case) -> None:
    result = fixed(case)
    unchanged = all(strip_wants(case.before[relative], relative) == text for relative, text in result.items())
    for relative, text in result.items():
        single = (case.folder / "before.py").is_file()
        target = case.folder / "after.py" if single else case.folder / "after" / relative
        if unchanged:
            target.unlink(missing_ok=True)
        elif not target.exists() or target.read_text() != text:
            target.parent.mkdir(exist_ok=True)
            target.write_text(text)
            print(target)


if __name__ == "__main__":
    main(sys.argv[1:])
