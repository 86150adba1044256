from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tpulint.engine.select import select
from tpulint.finding import FileError
from tpulint.settings import Settings


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder that lies in no repository, so that only what a test writes is ignored."""
    return tmp_path


def write(root: Path, *names: str, text: str = "") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def selected(root: Path, *paths: str, **choices: Any) -> list[str]:
    selection = select([root / path for path in paths or (".",)], replace(Settings(root=root), **choices))
    assert () == selection.errors
    return [path.relative_to(root).as_posix() for path in selection.files]


def test_folders_are_walked_in_order_for_python_files(tree: Path) -> None:
    write(tree, "b.py", "a/z.py", "a/b/c.py", "notes.txt", "stub.pyi", "a.py")
    assert ["a.py", "a/b/c.py", "a/z.py", "b.py"] == selected(tree)


def test_a_file_given_several_times_is_selected_once(tree: Path) -> None:
    write(tree, "a/b.py")
    assert ["a/b.py"] == selected(tree, "a/b.py", "a", ".", "a/../a/b.py")


def test_default_excludes_skip_venv_node_modules_and_git(tree: Path) -> None:
    write(tree, "a.py", ".venv/lib/x.py", "node_modules/x.py", "pkg/__pycache__/x.py", ".git/hooks/x.py")
    assert ["a.py"] == selected(tree)


def test_exclude_replaces_and_extend_exclude_extends_the_defaults(tree: Path) -> None:
    write(tree, "a.py", "gen/b.py", "venv/c.py", "deep/gen/d.py")
    assert ["a.py", "deep/gen/d.py"] == selected(tree, extend_exclude=("gen/*.py",))
    assert ["a.py", "venv/c.py"] == selected(tree, exclude=("gen",))


def test_a_named_file_is_taken_unless_exclusion_is_forced(tree: Path) -> None:
    write(tree, "gen/script", "gen/b.py")
    assert ["gen/b.py", "gen/script"] == selected(tree, "gen/script", "gen/b.py", exclude=("gen",))
    assert [] == selected(tree, "gen/script", "gen/b.py", exclude=("gen",), force_exclude=True)


def test_the_deepest_gitignore_takes_precedence(tree: Path) -> None:
    write(tree, "a.py", "out/b.py", "pkg/out/c.py", "pkg/gen_x.py", "pkg/gen_keep.py", "other/gen_x.py")
    write(tree, ".gitignore", text="# made by the build\nout/\n\n/other/gen_*\n")
    write(tree, "pkg/.gitignore", text="gen_*.py\n!gen_keep.py\n!out/\n")
    assert ["a.py", "pkg/gen_keep.py", "pkg/out/c.py"] == selected(tree)
    assert 6 == len(selected(tree, respect_gitignore=False))


def test_gitignore_applies_below_its_folder_and_git_info_exclude_counts(tree: Path) -> None:
    write(tree, "src/a.py", "src/local.py", "src/made.py")
    write(tree, ".gitignore", text="made.py\n")
    assert ["src/a.py", "src/local.py", "src/made.py"] == selected(tree, "src")
    write(tree, ".git/info/exclude", text="local.py\n")
    assert ["src/a.py"] == selected(tree, "src")
    assert ["src/a.py"] == selected(tree)


def test_an_ignored_folder_is_walked_if_named_on_the_command_line(tree: Path) -> None:
    write(tree, ".git/HEAD", "build/a.py", "build/deep/b.py")
    write(tree, ".gitignore", text="build/\n")
    assert [] == selected(tree)
    assert ["build/a.py", "build/deep/b.py"] == selected(tree, "build")
    assert ["build/deep/b.py"] == selected(tree, "build/deep")


def test_missing_paths_fifos_and_broken_links_are_errors_and_the_rest_is_selected(tree: Path) -> None:
    write(tree, "a.py")
    os.mkfifo(tree / "pipe.py")
    (tree / "loop.py").symlink_to("loop.py")
    (tree / "dangling.py").symlink_to("nowhere.py")
    selection = select([tree, tree / "missing"], Settings(root=tree))
    assert (tree / "a.py",) == selection.files
    assert (
        FileError(str(tree / "dangling.py"), "no such file or folder"),
        FileError(str(tree / "loop.py"), "a link that leads back to itself"),
        FileError(str(tree / "pipe.py"), "neither a file nor a folder"),
        FileError(str(tree / "missing"), "no such file or folder"),
    ) == selection.errors


def test_an_unreadable_folder_is_an_error_and_the_rest_is_selected(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, "a/x.py", "locked/y.py", "z.py")
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if path.endswith("locked"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    selection = select([tree], Settings(root=tree))
    assert (tree / "a/x.py", tree / "z.py") == selection.files
    assert (FileError(str(tree / "locked"), "permission denied"),) == selection.errors


def test_symlinked_folders_are_skipped_and_symlinked_files_selected_once(tree: Path) -> None:
    write(tree, "pkg/a.py", "elsewhere/b.txt")
    (tree / "pkg" / "loop").symlink_to(tree / "pkg")
    (tree / "also_a.py").symlink_to(tree / "pkg" / "a.py")
    (tree / "b.py").symlink_to(tree / "elsewhere" / "b.txt")
    assert ["b.py", "pkg/a.py"] == selected(tree)


def test_an_editor_lock_file_is_not_selected(tree: Path) -> None:
    (tree / ".#a.py").symlink_to("someone@somewhere.123")
    assert [] == selected(tree)


def test_an_invalid_gitignore_line_is_skipped(tree: Path) -> None:
    write(tree, "a.py", "b.py")
    write(tree, ".gitignore", text="!\nb.py\n")
    assert ["a.py"] == selected(tree)


def test_an_unreadable_gitignore_is_an_error_and_the_rest_is_selected(
    tree: Path,
) -> None:
    write(tree, "a.py", ".gitignore")
    (tree / ".gitignore").chmod(0)
    if os.access(tree / ".gitignore", os.R_OK):
        pytest.skip("this user may read everything")
    selection = select([tree], Settings(root=tree))
    assert (tree / "a.py",) == selection.files
    assert (FileError(str(tree / ".gitignore"), "permission denied"),) == selection.errors


def test_a_file_name_need_not_be_valid_utf_8(tree: Path) -> None:
    name = os.fsdecode(b"\xff.py")
    write(tree, name)
    write(tree, ".gitignore", text="b.py\n")
    assert [name] == selected(tree)
