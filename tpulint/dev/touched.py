"""Which unit tests a change touches: those in the folder of `tests` that mirrors a changed file's own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

_RUNTIME = PurePosixPath("runtime/src/torchax_compat")
_TESTS, _RUNTIMES_TESTS = PurePosixPath("tests"), PurePosixPath("runtime/tests")
_OF_ALL = {_TESTS: {"tests/engine", "tests/model"}, _RUNTIMES_TESTS: {"runtime/tests/autograd"}}
PYTEST = ("-q", "-n", "2", "--dist", "loadgroup", "-m", "not slow")
"""The options of each run, which leave out what takes long."""


def changed(root: Path) -> list[str]:
    """The files that differ from the last commit, or those of the last commit where none does.

    Raises:
        OSError: when Git cannot be asked.
    """
    edited = _git(root, "diff", "--name-only", "HEAD")
    edited += _git(root, "ls-files", "--others", "--exclude-standard")
    return edited or _git(root, "diff", "--name-only", "HEAD~1", "HEAD")


def _git(root: Path, *arguments: str) -> list[str]:
    asked = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if asked.returncode:
        raise OSError(f"git {arguments[0]}: {asked.stderr.strip()}")
    return asked.stdout.splitlines()


def runs(files: Iterable[str], root: Path) -> list[list[str]]:
    """The arguments of the pytest runs that a change asks for, at most one for each of:

    the tests in the mirroring folders; the laws and cases of the changed rules; the tests of the runtime,
    which have a process of their own.
    """
    plain: set[str] = set()
    rules: set[str] = set()
    runtime: set[str] = set()
    for path in map(PurePosixPath, files):
        if path.is_relative_to(_RUNTIMES_TESTS):
            runtime |= _own(path, root)
        elif path.is_relative_to(_TESTS):
            plain |= _own(path, root)
        elif path.is_relative_to(_RUNTIME):
            runtime |= _mirrored(path.relative_to(_RUNTIME).parts, root, _RUNTIMES_TESTS)
        elif path.is_relative_to("rules/tpulint_rules") and len(path.parts) == 4 and path.stem != "__init__":
            rules.add(path.stem)
        elif path.is_relative_to("fixtures") and len(path.parts) > 2:
            rules.add(path.parts[1])
        elif path.is_relative_to("tpulint") and path.suffix == ".py":
            plain |= _mirrored(path.parts[1:], root, _TESTS)
    found = [_outermost(plain), _outermost(runtime)]
    if rules:
        found.append(["tests/rules", "-k", " or ".join(sorted(rules))])
    return [run for run in found if run]


def _outermost(paths: set[str]) -> list[str]:
    """Paths without those that lie in others."""
    return sorted(path for path in paths if not any(path.startswith(f"{other}/") for other in paths))


def _own(path: PurePosixPath, root: Path) -> set[str]:
    """A test file itself, or all tests of a folder whose other files changed."""
    if path.name.startswith("test_") and path.suffix == ".py":
        return {str(path)} if (root / path).exists() else set()
    return {str(path.parent)} if path.parent != _TESTS and (root / path.parent).is_dir() else set()


def _mirrored(parts: Sequence[str], root: Path, tests: PurePosixPath) -> set[str]:
    """The tests of a module, given its path in its package and the folder of the package's tests.

    They are the file of its name, else the folder that mirrors its own; what all use, such as
    `tpulint/finding.py`, has the tests that are named in `_OF_ALL`.
    """
    *package, name = parts
    stem, folder = name.removesuffix(".py"), tests
    for part in (*package, stem):
        if not (root / folder / part).is_dir():
            break
        folder /= part
    named = {str(file.relative_to(root)) for file in (root / folder).rglob(f"test_{stem}.py")}
    return named or ({str(folder)} if folder != tests else _OF_ALL[tests])
