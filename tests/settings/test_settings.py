from __future__ import annotations

import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tpulint.settings import (
    DEFAULT_EXCLUDE,
    Selectors,
    Settings,
    SettingsError,
    load,
    matches,
    with_known_selectors,
)

RULES = [("TPU101", "hardcoded-cuda-device"), ("TPU301", "item-in-traced-code"), ("TPU302", "traced-branch")]


def project(folder: Path, table: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_text(table, encoding="utf-8")
    return path


def selected(settings: Settings) -> list[str]:
    return [code for code, name in RULES if settings.selects(code, name)]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Settings(), ["TPU101", "TPU301", "TPU302"]),
        (Settings(select=("ALL",)), ["TPU101", "TPU301", "TPU302"]),
        (Settings(select=("TPU3",)), ["TPU301", "TPU302"]),
        (Settings(select=("item-in-traced-code",)), ["TPU301"]),
        (Settings(select=(), extend_select=("TPU101",)), ["TPU101"]),
        (Settings(ignore=("TPU3",)), ["TPU101"]),
        (Settings(select=("TPU301",), ignore=("TPU3",)), ["TPU301"]),
        (Settings(select=("TPU3",), ignore=("TPU301",)), ["TPU302"]),
        (Settings(select=("TPU301",), ignore=("item-in-traced-code",)), []),
        (Settings(select=("TPU1",), ignore=("ALL",)), ["TPU101"]),
    ],
)
def test_the_longest_selector_wins_and_ignore_wins_a_tie(settings: Settings, expected: list[str]) -> None:
    assert expected == selected(settings)


@pytest.mark.parametrize(
    ("settings", "is_on"),
    [
        (Settings(), False),
        (Settings(select=("ALL",), extend_select=("ALL",)), False),
        (Settings(select=("TPU",)), False),
        (Settings(select=("ALL", "UPG")), True),
        (Settings(extend_select=("UPG1",)), True),
        (Settings(extend_select=("removed-function",)), True),
        (Settings(extend_select=("UPG",), ignore=("ALL",)), True),
        (Settings(extend_select=("UPG",), ignore=("UPG101",)), False),
        (Settings(extend_select=("UPG",), command_line=Selectors(select=("ALL",))), False),
        (Settings(extend_select=("UPG",), command_line=Selectors(ignore=("TPU",))), True),
        (Settings(command_line=Selectors(extend_select=("UPG101",))), True),
        (Settings(command_line=Selectors(select=("UPG",))), True),
    ],
)
def test_an_optional_rule_is_on_only_if_it_is_named(settings: Settings, is_on: bool) -> None:
    assert is_on == settings.selects("UPG101", "removed-function", optional=True)


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        (Selectors(select=("TPU1",)), ["TPU101"]),
        (Selectors(select=("TPU3",)), ["TPU302"]),
        (Selectors(select=("TPU301",)), ["TPU301"]),
        (Selectors(extend_select=("TPU3",)), ["TPU301", "TPU302"]),
        (Selectors(ignore=("TPU3",)), []),
        (Selectors(select=("TPU301",), ignore=("TPU3",)), ["TPU301"]),
        (Selectors(), ["TPU302"]),
    ],
)
def test_the_command_line_wins_over_the_file(above: Selectors, expected: list[str]) -> None:
    settings = Settings(select=("TPU302",), ignore=("TPU301",), command_line=above)
    assert expected == selected(settings)


def test_a_syntax_error_can_be_neither_deselected_nor_ignored() -> None:
    settings = Settings(select=(), ignore=("ALL",), per_file_ignores=(("*", ("ALL",)),))
    assert settings.selects("TPU000", "syntax-error")
    assert not settings.ignored_in("a.py", "TPU000", "syntax-error")


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("tests/*", "tests/test_a.py", True),
        ("tests/*", "tests/deep/test_a.py", False),
        ("tests/**", "tests/deep/test_a.py", True),
        ("test_*.py", "tests/deep/test_a.py", True),
        ("!tests/**", "tests/test_a.py", False),
        ("!tests/**", "src/a.py", True),
    ],
)
def test_per_file_ignores_are_globs_below_the_root(
    tmp_path: Path, pattern: str, path: str, expected: bool
) -> None:
    settings = Settings(root=tmp_path, per_file_ignores=((pattern, ("TPU3",)),))
    assert expected == settings.ignored_in(tmp_path / path, "TPU301", "item-in-traced-code")
    assert not settings.ignored_in(tmp_path / path, "TPU101", "hardcoded-cuda-device")


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("build", "build", True),
        ("build", "a/build", True),
        ("build", "builder", False),
        ("build/", "a/build", True),
        ("a/build", "a/build", True),
        ("a/build", "b/a/build", False),
        ("**/build", "b/a/build", True),
        ("**/build", "build", True),
        ("gen_[0-9]?.py", "x/gen_12.py", True),
        ("gen_[!0-9]?.py", "x/gen_12.py", False),
        ("a+b.py", "a+b.py", True),
        ("*.py", "a\nb.py", True),
    ],
)
def test_a_pattern_with_a_slash_matches_the_path_and_one_without_the_name(
    pattern: str, path: str, expected: bool
) -> None:
    assert expected == matches((pattern,), path)


def test_the_nearest_pyproject_with_a_tpulint_table_is_used(tmp_path: Path) -> None:
    project(tmp_path, '[tool.tpulint]\nselect = ["TPU1"]\n')
    (tmp_path / "inner" / "deep").mkdir(parents=True)
    project(tmp_path / "inner", "[project]\nname = 'inner'\n")
    settings = load(tmp_path / "inner" / "deep")
    assert (tmp_path, ("TPU1",)) == (settings.root, settings.select)


def test_every_key_is_read(tmp_path: Path) -> None:
    project(
        tmp_path,
        """
        [tool.tpulint]
        select = ["TPU3"]
        ignore = ["TPU301"]
        extend-select = ["TPU101"]
        exclude = ["old", "./gen/*.py"]
        extend-exclude = ["other"]
        force-exclude = true
        respect-gitignore = false
        per-file-ignores = { "tests/**" = ["ALL"] }
        trace-roots = ["pkg.model.forward"]
        traced = "jit"
        keep-gpu = true
        environment = ["quiet"]
        cache-dir = ".cache"
        """,
    )
    expected = Settings(
        root=tmp_path,
        select=("TPU3",),
        ignore=("TPU301",),
        extend_select=("TPU101",),
        exclude=("old", "gen/*.py"),
        extend_exclude=("other",),
        force_exclude=True,
        respect_gitignore=False,
        per_file_ignores=(("tests/**", ("ALL",)),),
        trace_roots=("pkg.model.forward",),
        traced="jit",
        keep_gpu=True,
        environment=("quiet",),
        cache_dir=tmp_path / ".cache",
    )
    assert expected == load(tmp_path)


def test_defaults_apply_without_a_file_and_with_isolated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (tmp_path, DEFAULT_EXCLUDE) == (load(tmp_path).root, load(tmp_path).exclude)
    project(tmp_path, "[tool.tpulint]\nselect = 3\n")
    assert Settings(root=tmp_path) == load(tmp_path, isolated=True)


def test_settings_can_be_pickled() -> None:
    settings = Settings(command_line=Selectors(select=("TPU3",)))
    assert settings == pickle.loads(pickle.dumps(settings))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.tpulint\n", r"not valid TOML: .*line 1"),
        (
            "[tool.tpulint]\nselects = []\n",
            r"`tool.tpulint.selects` is not known; accepted are cache-dir",
        ),
        (
            "[tool.tpulint]\nselect = 'TPU3'\n",
            r"`tool.tpulint.select` must be a list of strings, not a string",
        ),
        (
            "[tool.tpulint]\nselect = ['TPU3', 3]\n",
            r"`tool.tpulint.select` must be a list of strings, but holds a number",
        ),
        ("[tool.tpulint]\nforce-exclude = 1\n", r"must be `true` or `false`, not a number"),
        ("[tool.tpulint]\nenvironment = ['x']\n", r"may hold 'compilation-cache', 'mesh', 'quiet', not 'x'"),
        ("[tool.tpulint]\ncache-dir = true\n", r"must be a string, not a boolean"),
        ("[tool.tpulint]\nper-file-ignores = ['a']\n", r"must be a table of patterns .*, not a list"),
        ("[tool.tpulint]\nexclude = ['[z-a].py']\n", r"`\[z-a\].py` is not a valid pattern"),
        ("[tool]\ntpulint = 3\n", r"`tool.tpulint` must be a table, not a number"),
        ("a = " + "[" * 9999, "not valid TOML"),
    ],
)
def test_an_invalid_file_is_a_one_line_error_with_the_accepted_values(
    tmp_path: Path, text: str, message: str
) -> None:
    path = project(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    assert re.search(message, str(caught.value))


def test_a_file_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"[tool.tpulint]\n# \xff\n")
    with pytest.raises(SettingsError, match=r"pyproject.toml: not UTF-8, which TOML must be \(byte 17\)"):
        load(tmp_path)


def test_a_config_without_a_table_or_a_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load(tmp_path, config=tmp_path / "missing.toml")
    with pytest.raises(SettingsError, match=r"has no `\[tool.tpulint\]` table"):
        load(tmp_path, config=project(tmp_path, ""))


@pytest.mark.parametrize("unknown", ["TPU9", "tpu301", "item", "TPU3011", ""])
def test_a_selector_that_names_no_rule_is_an_error(unknown: str) -> None:
    with pytest.raises(SettingsError, match=f"ignore: `{unknown}` names no rule"):
        with_known_selectors(Settings(ignore=(unknown,)), lambda: RULES)


def test_former_names_select_the_renamed_rule_everywhere() -> None:
    rules = [("TPU301", "item-in-traced-code", "old-item"), ("TPU302", "traced-branch")]
    given = Settings(
        select=("old-item", "TPU302"),
        ignore=("old-item",),
        extend_select=("old-item",),
        per_file_ignores=(("a.py", ("old-item",)),),
        command_line=Selectors(("old-item",), ("traced-branch",), ("old-item",)),
    )
    renamed = replace(
        given,
        select=("item-in-traced-code", "TPU302"),
        ignore=("item-in-traced-code",),
        extend_select=("item-in-traced-code",),
        per_file_ignores=(("a.py", ("item-in-traced-code",)),),
        command_line=Selectors(("item-in-traced-code",), ("traced-branch",), ("item-in-traced-code",)),
    )
    assert renamed == with_known_selectors(given, lambda: rules)


def test_known_selectors_pass_and_defaults_do_not_load_the_rules() -> None:
    with_known_selectors(Settings(select=("TPU3", "TPU301", "traced-branch", "ALL")), lambda: RULES)
    with_known_selectors(Settings(), lambda: pytest.fail("asked for the rules"))
