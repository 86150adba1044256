"""What a command line asks for: the settings under it, and the files or the standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tpulint.finding import FileError
from tpulint.settings import TARGETS, Selectors, Settings, load, patterns, with_known_selectors

_STDIN = "-"


class UsageError(Exception):
    """Arguments that contradict each other, in one line."""


@dataclass(frozen=True, slots=True)
class Given:
    """The work of one run; false where there is none.

    `files` are Python, and `project_files` those around the code. `named` are the paths that were given one
    by one.
    """

    settings: Settings
    files: tuple[Path, ...] = ()
    project_files: tuple[Path, ...] = ()
    named: frozenset[str] = frozenset()
    stdin: tuple[str, bytes] | None = None
    errors: tuple[FileError, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.files or self.project_files) or self.stdin is not None


def asked_for(
    paths: tuple[str, ...],
    *,
    stdin_filename: str | None = None,
    config: Path | None = None,
    isolated: bool = False,
    select: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
    extend_select: tuple[str, ...] = (),
    exclude: tuple[str, ...] = (),
    extend_exclude: tuple[str, ...] = (),
    force_exclude: bool = False,
    traced: str | None = None,
    min_severity: str | None = None,
    target: str | None = None,
    keep_gpu: bool = False,
    include_tests: bool = False,
) -> Given:
    """The settings of the project that the paths lie in, overlaid by the options, and what to work on."""
    if config is not None and isolated:
        raise UsageError("--config and --isolated exclude each other")
    if _STDIN in paths and len(paths) > 1:
        raise UsageError("`-` stands alone: standard input cannot be checked beside files")
    if stdin_filename is not None and _STDIN not in paths:
        raise UsageError("--stdin-filename goes with `-`")
    name = os.path.abspath(stdin_filename) if stdin_filename else _STDIN
    given = [name] if _STDIN in paths else [os.path.abspath(path) for path in paths or (".",)]
    file = load(_folder(given), config, isolated)

    def globs(option: str, values: tuple[str, ...]) -> tuple[str, ...]:
        return patterns(_commas(values), option, base=Path.cwd(), root=file.root)

    settings = replace(
        file,
        exclude=globs("--exclude", exclude) if exclude else file.exclude,
        extend_exclude=file.extend_exclude + globs("--extend-exclude", extend_exclude),
        force_exclude=force_exclude or file.force_exclude,
        traced=traced or file.traced,
        min_severity=min_severity or file.min_severity,
        target=target or file.target,
        keep_gpu=keep_gpu or file.keep_gpu,
        include_tests=include_tests or file.include_tests,
        command_line=Selectors(
            select=_commas(select) if select else None,
            ignore=_commas(ignore),
            extend_select=_commas(extend_select),
        ),
    )
    if settings.keep_gpu and settings.target != TARGETS[0]:
        raise UsageError(f"keep-gpu goes with the target {TARGETS[0]}, not with {settings.target}")
    settings = with_known_selectors(settings, _known_rules)
    if _STDIN in paths:
        return Given(settings, stdin=(name, sys.stdin.buffer.read()))
    from tpulint.engine.select import select as selected

    selection = selected(given, settings)
    return Given(settings, selection.files, selection.project_files, frozenset(given), None, selection.errors)


def place_asked_for(text: str, paths: tuple[str, ...]) -> tuple[Path, int, Given]:
    """The file and row of `FILE:LINE`, and the project that it is judged in.

    That is what the paths name together with the file, or else all below the nearest folder with a
    pyproject.toml, or else the file's package.
    """
    name, _, row = text.rpartition(":")
    if not name or not row.isdecimal():
        raise UsageError(f"`{text}` is not FILE:LINE")
    path = Path(os.path.abspath(name))
    if not path.is_file():
        raise UsageError(f"{name}: no such file")
    return path, int(row), asked_for((*(paths or (str(_project(path)),)), str(path)))


def _project(path: Path) -> Path:
    for folder in path.parents:
        if (folder / "pyproject.toml").is_file():
            return folder
    folder = path.parent
    while (folder / "__init__.py").is_file() and (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _folder(given: list[str]) -> Path:
    """Where the search for settings starts: the folder that all the paths lie in."""
    if given == [_STDIN]:
        return Path.cwd()
    common = Path(os.path.commonpath(given))
    return common if common.is_dir() else common.parent


def _known_rules() -> Iterable[tuple[str, ...]]:
    from tpulint.registry import rules

    return [(rule.code, rule.name, *rule.former) for rule in rules()]


def _commas(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(item.strip() for value in values for item in value.split(",") if item.strip())
