"""Which files a run is about: the paths given, folders walked, what is ignored left out."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tpulint.finding import FileError
from tpulint.project_files.kinds import FileKind, kind_of
from tpulint.settings import Settings

if TYPE_CHECKING:
    import pathspec


@dataclass(frozen=True, slots=True)
class Selection:
    """The Python files to look at, those around the code, and the paths that could not be looked at.

    The files are absolute and in order.
    """

    files: tuple[Path, ...]
    project_files: tuple[Path, ...]
    errors: tuple[FileError, ...]


def select(paths: Sequence[str | Path], settings: Settings) -> Selection:
    """The Python files at and below the paths, and the files around the code.

    A file named outright is taken whatever it is called, and even if it is excluded, unless the settings
    force that. Linked folders are not entered (so there are no loops); a linked file counts only where the
    file itself is not already there.
    """
    walk = _Walk(settings)
    for path in paths:
        walk.given(os.path.abspath(path))
    code: list[Path] = []
    others: list[Path] = []
    for file in sorted(walk.files()):
        if kind_of(file) is not None:
            others.append(Path(file))
        if kind_of(file) in (None, FileKind.SETUP_PY):
            code.append(Path(file))
    return Selection(tuple(code), tuple(others), tuple(walk.errors))


@dataclass(slots=True)
class _Walk:
    settings: Settings
    plain: dict[str, None] = field(default_factory=dict)
    linked: dict[str, None] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    errors: list[FileError] = field(default_factory=list)

    def given(self, path: str) -> None:
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            self.errors.append(FileError(path, _reason(error)))
            return
        if self.settings.force_exclude and self.settings.excludes_above(path):
            return
        if stat.S_ISDIR(mode):
            self.folder(path, _above(path) if self.settings.respect_gitignore else ())
        elif stat.S_ISREG(mode):
            (self.linked if os.path.islink(path) else self.plain)[path] = None
        else:
            self.errors.append(FileError(path, "neither a file nor a folder"))

    def folder(self, path: str, ignores: tuple[_Ignore, ...]) -> None:
        if path in self.seen:
            return
        self.seen.add(path)
        try:
            with os.scandir(path) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            self.errors.append(FileError(path, _reason(error)))
            return
        if self.settings.respect_gitignore:
            ignores = (*ignores, *self.ignores_in(path, entries))
        for entry in entries:
            self.entry(entry, ignores)

    def ignores_in(self, path: str, entries: list[os.DirEntry[str]]) -> Iterator[_Ignore]:
        names = {entry.name for entry in entries}
        for name in (".git/info/exclude", ".gitignore"):
            if name.partition("/")[0] not in names:
                continue
            try:
                ignore = _ignore(path, name)
            except (OSError, ValueError) as error:
                self.errors.append(FileError(os.path.join(path, name), _reason(error)))
            else:
                if ignore is not None:
                    yield ignore

    def entry(self, entry: os.DirEntry[str], ignores: tuple[_Ignore, ...]) -> None:
        is_folder = entry.is_dir(follow_symlinks=False)
        if not is_folder and not entry.name.endswith(".py") and kind_of(entry.path) is None:
            return
        if entry.name.startswith(".#") or _ignored(entry.path, is_folder, ignores):
            return
        if self.settings.excludes(entry.path):
            return
        if is_folder:
            self.folder(entry.path, ignores)
            return
        try:
            if entry.is_symlink():
                if stat.S_ISREG(entry.stat().st_mode):
                    self.linked[entry.path] = None
            elif entry.is_file():
                self.plain[entry.path] = None
            else:
                self.errors.append(FileError(entry.path, "neither a file nor a folder"))
        except OSError as error:
            self.errors.append(FileError(entry.path, _reason(error)))

    def files(self) -> set[str]:
        """Each file once, by its own name rather than by a link's."""
        files = set(self.plain)
        if self.linked:
            known = {_identity(path) for path in files}
            for path in sorted(self.linked):
                identity = _identity(path)
                if identity not in known:
                    known.add(identity)
                    files.add(path)
        return files


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return (status.st_dev, status.st_ino)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        if error.errno == errno.ENOENT:
            return "no such file or folder"
        if error.errno == errno.ELOOP:
            return "a link that leads back to itself"
        return (error.strerror or str(error)).lower()
    return " ".join(str(error).split())


@dataclass(frozen=True, slots=True)
class _Ignore:
    """One ignore file: `folder` is what its patterns are relative to."""

    folder: str
    spec: pathspec.GitIgnoreSpec
    any_pattern: re.Pattern[str]

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """Whether the file ignores the path or takes it back; `None` where it has no opinion.

        Nearly every path fits no pattern at all, and one joined expression says so ten times faster than
        asking each pattern in turn (2.3 thousand files under 150 patterns: 3 ms for 42 ms).
        """
        relative = path[len(self.folder) + 1 :] + ("/" if is_folder else "")
        if self.any_pattern.match(relative) is None:
            return None
        return self.spec.check_file(relative).include


def _ignore(folder: str, name: str) -> _Ignore | None:
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        lines = [line for line in file.read().splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        return None
    import pathspec

    spec = pathspec.GitIgnoreSpec.from_lines(filter(_is_pattern, lines))
    expressions = [
        re.sub(r"\(\?P<\w+>", "(?:", pattern.regex.pattern)
        for pattern in spec.patterns
        if isinstance(pattern, pathspec.RegexPattern) and pattern.regex is not None
    ]
    return _Ignore(folder.rstrip("/"), spec, re.compile("|".join(expressions) or r"(?!)"))


def _is_pattern(line: str) -> bool:
    """Whether the line can be read: git skips those that cannot, such as a lone `!`."""
    import pathspec

    try:
        pathspec.GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _ignored(path: str, is_folder: bool, ignores: tuple[_Ignore, ...]) -> bool:
    for ignore in reversed(ignores):
        verdict = ignore.verdict(path, is_folder)
        if verdict is not None:
            return verdict
    return False


def _above(path: str) -> tuple[_Ignore, ...]:
    """The ignore files of the repository that hold for a folder from above.

    None where they ignore the folder itself: who names an ignored folder wants what is in it.
    """
    parents = []
    if not os.path.exists(os.path.join(path, ".git")):
        for parent in map(str, Path(path).parents):
            parents.append(parent)
            if os.path.exists(os.path.join(parent, ".git")):
                break
        else:
            return ()
    ignores: list[_Ignore] = []
    for parent in reversed(parents):
        for name in (".git/info/exclude", ".gitignore"):
            try:
                ignore = _ignore(parent, name)
            except (OSError, ValueError):
                continue
            if ignore is not None:
                ignores.append(ignore)
    steps = [*reversed(parents[:-1]), path] if parents else []
    if any(_ignored(step, is_folder=True, ignores=tuple(ignores)) for step in steps):
        return ()
    return tuple(ignores)
