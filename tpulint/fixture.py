"""Fixture cases: folders that show what a rule finds, what its fix gives, and how to execute both."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tpulint.project_files.kinds import kind_of
from tpulint.settings import Settings, load

SINGLE = "before.py"
"""How the file of a single-file case is called in `Case.before` and in `Case.after`."""

_ENVIRONMENT = re.compile(r"""^environment = ["']([\w-]+)["']""", re.MULTILINE)
_FIXED_IN = re.compile(r"""^fixed_in = ["']([\w-]+)["']""", re.MULTILINE)
_ITEM = re.compile(r"""(?:\#\s*want:|,)?\s*(?P<code>[A-Z]+\d+)(?:\s+"(?P<pattern>(?:[^"\\]|\\.)*)")?\s*""")


@dataclass(frozen=True, slots=True)
class Case:
    """One fixture folder, read.

    Paths in `before` and `after` are relative and the same on both sides, so that the two mappings
    compare directly: a single-file case calls its file `before.py` in both.
    """

    rule: str
    name: str
    folder: Path
    before: Mapping[str, str]
    after: Mapping[str, str] | None
    run: Path | None

    @property
    def data(self) -> tuple[Path, ...]:
        """The folder's files that are neither code under study nor run.py, such as pictures."""
        return tuple(
            path
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and path.suffix != ".pyc" and not _is_studied(path)
        )

    @property
    def has_code(self) -> bool:
        """Whether the case is about Python code, which can be executed."""
        return any(path.endswith(".py") for path in self.before)

    @property
    def environment(self) -> str:
        """The environment of its own that the case is executed in, which run.py names; "" for this one."""
        found = _ENVIRONMENT.search(read_source(self.run)) if self.run is not None else None
        return found[1] if found is not None else ""

    @property
    def fixed_in(self) -> str:
        """The environment that the fixed code of such a case is executed in."""
        found = _FIXED_IN.search(read_source(self.run)) if self.run is not None else None
        return found[1] if found is not None else self.environment

    @property
    def settings(self) -> Settings:
        """The settings of the case's own pyproject.toml, or those by default."""
        config = self.folder / "pyproject.toml"
        settings = load(self.folder, config) if config.is_file() else Settings(root=self.folder)
        return replace(settings, runtime_is_installed=False)  # whether it is here or not


@dataclass(frozen=True, slots=True, order=True)
class Want:
    """A finding that is due: `code` at `row` (from 1), its message matching the regular expression."""

    path: str
    row: int
    code: str
    pattern: str


def cases(root: Path) -> tuple[Case, ...]:
    """Every case under `root`, which holds one folder for each rule; sorted by rule, then by name."""
    found = [
        Case(
            rule=folder.parent.name,
            name=folder.name,
            folder=folder,
            before=before,
            after=_side(folder, "after"),
            run=run if (run := folder / "run.py").is_file() else None,
        )
        for folder in sorted(root.glob("*/*/"))
        if (before := _side(folder, "before")) is not None
    ]
    return tuple(found)


def wants(text: str, path: str = SINGLE) -> tuple[Want, ...]:
    """The findings that the trailing `# want: CODE "regex"` comments of a file with this path ask for."""
    comments = _comments(text, path)
    return tuple(
        Want(path, row, match["code"], (match["pattern"] or "").replace('\\"', '"'))
        for row, _, comment in comments
        for match in _items(comment, path, row)
    )


def strip_wants(text: str, path: str = SINGLE) -> str:
    """The text without its want comments and the blanks before them; every line keeps its number."""
    comments = _comments(text, path)
    # Not `splitlines`, which also breaks at form feeds, where a Python line goes on.
    lines = list(io.StringIO(text, newline=""))
    for row, column, comment in comments:
        line = lines[row - 1]
        lines[row - 1] = line[:column].rstrip(" \t") + line[column + len(comment) :]
    return "".join(lines)


def read_source(path: Path) -> str:
    """A source file's text, decoded as Python would, line endings kept as they are."""
    with path.open("rb") as stream:
        encoding, _ = tokenize.detect_encoding(stream.readline)
    with path.open(encoding=encoding, newline="") as stream:
        return stream.read()


def _side(folder: Path, side: str) -> dict[str, str] | None:
    if (single := folder / f"{side}.py").is_file():
        return {SINGLE: read_source(single)}
    if (several := folder / side).is_dir():
        paths = [path for path in sorted(several.rglob("*")) if path.is_file() and _is_studied(path)]
        return {path.relative_to(several).as_posix(): read_source(path) for path in paths}
    return None


def _is_studied(path: Path) -> bool:
    return path.suffix == ".py" or kind_of(str(path)) is not None


def _want_comments(text: str) -> Iterator[tuple[int, int, str]]:
    """Row, column and text of each want; a want may follow another comment on its line."""
    reader = io.StringIO(text, newline="").readline
    try:
        for token in tokenize.generate_tokens(reader):
            if token.type == tokenize.COMMENT and (found := re.search(r"#\s*want:", token.string)):
                yield token.start[0], token.start[1] + found.start(), token.string[found.start() :].rstrip()
    except (tokenize.TokenError, SyntaxError):
        # A case about broken code: what stands before the break still counts.
        return


def _comments(text: str, path: str) -> Iterator[tuple[int, int, str]]:
    """Row, column and text of each want of a file."""
    if path.endswith(".py"):
        return _want_comments(text)
    # In a notebook, a line of code is a string of JSON.
    end = r'.*?(?=(?:\\n)?",?$)' if path.endswith(".ipynb") else ".*"
    return _lines_with_wants(text, re.compile(rf"#\s*want:{end}"))


def _lines_with_wants(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int, str]]:
    """The same of a file that is not Python, where a number sign in a text does not occur."""
    for row, line in enumerate(io.StringIO(text, newline=""), 1):
        if found := pattern.search(line.rstrip("\r\n")):
            yield row, found.start(), found[0].rstrip()


def _items(comment: str, path: str, row: int) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(comment):
        match = _ITEM.match(comment, position)
        if match is None:
            raise ValueError(f'{path}:{row}: a want reads `# want: CODE "regex"`, not `{comment}`')
        yield match
        position = match.end()
    if position == 0:
        raise ValueError(f"{path}:{row}: an empty want")
