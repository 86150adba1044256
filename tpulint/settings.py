"""What the user chose: the `[tool.tpulint]` table of a pyproject.toml, overlaid by the command line.

Cheap to import and picklable, since every worker process gets one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpulint.finding import Finding

SYNTAX_ERROR = "TPU000"
"""The code of a file that does not parse."""

UNANALYZED = frozenset({SYNTAX_ERROR, "TPU002"})
"""The codes of files that are not analyzed completely; always reported, or silence could mean that."""

DEFAULT_EXCLUDE = (
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".git-rewrite",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pants.d",
    ".pyenv",
    ".pytest_cache",
    ".pytype",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".tpulint_cache",
    ".venv",
    ".vscode",
    "__pycache__",
    "__pypackages__",
    "_build",
    "buck-out",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)


ENVIRONMENT = ("compilation-cache", "mesh", "quiet")
"""What the setting `environment` may ask for; the page of `missing-torchax-environment` says what it does."""

TARGETS = ("torchax", "torch_xla", "torchtpu")
"""What fixed programs may use a TPU through, the default first; `knowledge.targets` describes them."""

SHARDING_DIMENSIONS = ("model", "data", "")
"""What a sharding rule may say of a dimension of a parameter."""

SEVERITIES = ("blocks", "slow", "cosmetic")
"""How much a finding matters, the highest first; see `Severity` of tpulint.finding."""

CERTAINTIES = ("jit", "forward", "interface")
"""What counts as traced, surest first, each with those before it; see `Certainty` of the model."""


class SettingsError(Exception):
    """A choice that cannot be followed, in one line that says where it stands and what is accepted."""


@dataclass(frozen=True, slots=True)
class Selectors:
    """One layer of choices among the rules; `select` is `None` where the layer leaves that open."""

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a run is told from outside.

    `root` is what patterns are relative to, `traced` one of `CERTAINTIES`, `min_severity` the lowest of
    `SEVERITIES` that is reported, `target` one of `TARGETS`, `keep_gpu` whether fixed programs still run on
    CUDA, `environment` what of `ENVIRONMENT` is set up where a fixed program starts,
    `sharding` the rules by which it shards parameters over `sharding_devices` devices, or over all if that is
    0: for a pattern of their names, a dimension of the mesh, or "", for each of their own,
    `time_limit` the seconds of processor time that each of the two passes over a file may take, and
    `runtime_is_installed` whether the runtime torchax-compat is installed, None to look for it.
    """

    root: Path = field(default_factory=Path.cwd)
    select: tuple[str, ...] = ("ALL",)
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    respect_gitignore: bool = True
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    trace_roots: tuple[str, ...] = ()
    traced: str = "interface"
    min_severity: str = SEVERITIES[-1]
    target: str = TARGETS[0]
    keep_gpu: bool = False
    include_tests: bool = False
    environment: tuple[str, ...] = ()
    sharding: tuple[tuple[str, tuple[str, ...]], ...] = ()
    sharding_devices: int = 0
    cache_dir: Path | None = None
    time_limit: float = 60
    runtime_is_installed: bool | None = None
    command_line: Selectors = Selectors()

    def selects(self, code: str, name: str, *, optional: bool = False) -> bool:
        """Whether a rule is on.

        The longest matching selector wins, `ignore` wins a tie, and the command line wins over the file:
        its `--select` replaces the file's, and yields only to a longer `ignore` of the file.
        `ALL` selects no `optional` rule.
        """
        if code in UNANALYZED:
            return True

        def selecting(selectors: Iterable[str]) -> int:
            named = (one for one in selectors if one != "ALL") if optional else selectors
            return _reach(named, code, name)

        above = self.command_line
        chosen = selecting(above.select or ())
        extended = selecting(above.extend_select)
        dropped = _reach(above.ignore, code, name)
        if max(chosen, extended, dropped) >= 0:
            if dropped >= max(chosen, extended):
                return False
            return extended >= chosen or chosen >= _reach(self.ignore, code, name)
        if above.select is not None:
            return False
        wanted = selecting((*self.select, *self.extend_select))
        return wanted > _reach(self.ignore, code, name)

    def ignored_in(self, path: str | Path, code: str, name: str) -> bool:
        """Whether `per-file-ignores` turns a rule off for a file."""
        return code not in UNANALYZED and any(
            _reach(selectors, code, name) >= 0
            and matches((pattern.removeprefix("!"),), self.relative(path)) != pattern.startswith("!")
            for pattern, selectors in self.per_file_ignores
        )

    def reports(self, finding: Finding) -> bool:
        """Whether a finding is severe enough to be reported."""
        return SEVERITIES.index(finding.severity) <= SEVERITIES.index(self.min_severity)

    def excludes(self, path: str | Path) -> bool:
        """Whether `exclude` or `extend-exclude` names this very file or folder (not one above it)."""
        return matches((*self.exclude, *self.extend_exclude), self.relative(path))

    def excludes_above(self, path: str | Path) -> bool:
        """Whether the file, or a folder of the project that it lies in, is excluded."""
        relative = self.relative(path)
        parts = relative.split("/")
        return any(
            matches((*self.exclude, *self.extend_exclude), "/".join(parts[:end]))
            for end in range(1, len(parts) + 1)
        )

    def relative(self, path: str | Path) -> str:
        """The path as patterns see it: with slashes, relative to `root` where it lies below."""
        return _relative(str(path), self.root)

    def selectors(self) -> tuple[tuple[str, str], ...]:
        """Each selector in use, with the name of the option that bears it."""
        above = self.command_line
        per_file = [selector for _, group in self.per_file_ignores for selector in group]
        groups: tuple[tuple[str, Iterable[str]], ...] = (
            ("select", self.select),
            ("ignore", self.ignore),
            ("extend-select", self.extend_select),
            ("per-file-ignores", per_file),
            ("--select", above.select or ()),
            ("--ignore", above.ignore),
            ("--extend-select", above.extend_select),
        )
        return tuple((option, selector) for option, group in groups for selector in group)


def _reach(selectors: Iterable[str], code: str, name: str) -> int:
    """How exactly the best of the selectors names a rule; -1 where none does."""
    best = -1
    for selector in selectors:
        if selector == "ALL":
            best = max(best, 0)
        elif selector in (code, name):
            best = max(best, len(code))
        elif code.startswith(selector):
            best = max(best, len(selector))
    return best


def with_known_selectors(settings: Settings, rules: Callable[[], Iterable[tuple[str, ...]]]) -> Settings:
    """The settings with the current name of each rule that a selector calls by a former one.

    `rules` gives the code, the name and the former names of each rule; it is called only when needed.

    Raises:
        SettingsError: for a selector that names no rule.
    """
    asked = [(option, text) for option, text in settings.selectors() if text not in ("ALL", "TPU")]
    if not asked:
        return settings
    known = list(rules())
    current = {former: name for _, name, *formers in known for former in formers}
    for option, text in asked:
        if not text or not any(_reach((text, current.get(text, text)), *rule[:2]) >= 0 for rule in known):
            raise SettingsError(
                f"{option}: `{text}` names no rule; accepted are codes (`TPU301`), the beginning of codes "
                "(`TPU3`), rule names and `ALL`; `tpulint rules` lists them"
            )

    def renamed(selectors: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(current.get(selector, selector) for selector in selectors)

    above = settings.command_line
    return replace(
        settings,
        select=renamed(settings.select),
        ignore=renamed(settings.ignore),
        extend_select=renamed(settings.extend_select),
        per_file_ignores=tuple((glob, renamed(group)) for glob, group in settings.per_file_ignores),
        command_line=Selectors(
            None if above.select is None else renamed(above.select),
            renamed(above.ignore),
            renamed(above.extend_select),
        ),
    )


def load(start: Path, config: Path | None = None, isolated: bool = False) -> Settings:
    """The settings of the nearest pyproject.toml, from `start` upward, that has a `[tool.tpulint]` table."""
    if isolated:
        return Settings()
    if config is not None:
        table = _table(config)
        if table is None:
            raise SettingsError(f"{config}: has no `[tool.tpulint]` table")
        return _settings(config.absolute(), table)
    start = start.absolute()
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file() and (table := _table(path)) is not None:
            return _settings(path, table)
    return Settings()


def _table(path: Path) -> Mapping[str, object] | None:
    import tomllib

    try:
        document = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8, which TOML must be (byte {error.start})") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"{path}: not valid TOML: {_one_line(error)}") from None
    tool = document.get("tool", {})
    table = tool.get("tpulint") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise SettingsError(f"{path}: `tool.tpulint` must be a table, not {_kind(table)}")
    return table


def _settings(path: Path, table: Mapping[str, object]) -> Settings:
    choices: dict[str, Any] = {"root": path.parent}
    for key, value in table.items():
        if key in _TABLES:
            continue
        if key not in _KEYS:
            accepted = ", ".join(sorted((*_KEYS, *_TABLES)))
            raise SettingsError(f"{path}: `tool.tpulint.{key}` is not known; accepted are {accepted}")
        where = f"{path}: `tool.tpulint.{key}`"
        choice = _KEYS[key](value, where)
        if key == "cache-dir":
            choice = path.parent / choice
        elif key in ("exclude", "extend-exclude"):
            choice = patterns(choice, where, base=path.parent, root=path.parent)
        choices[key.replace("-", "_")] = choice
    return Settings(**choices)


def patterns(globs: Iterable[str], where: str, *, base: Path, root: Path) -> tuple[str, ...]:
    """Patterns written relative to `base`, made relative to `root`; raises where one is malformed."""
    rebased = []
    for glob in globs:
        if "/" in glob.rstrip("/"):
            glob = _relative(os.path.normpath(base / glob), root)
        try:
            re.compile(_regex(glob))
        except re.error as error:
            raise SettingsError(f"{where}: `{glob}` is not a valid pattern: {error}") from None
        rebased.append(glob)
    return tuple(rebased)


def _relative(path: str, root: Path) -> str:
    folder = str(root).rstrip("/\\")
    if path.startswith((folder + "/", folder + "\\")):
        path = path[len(folder) + 1 :]
    return path.replace("\\", "/")


def _strings(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise SettingsError(f"{where} must be a list of strings, not {_kind(value)}")
    for item in value:
        if not isinstance(item, str):
            raise SettingsError(f"{where} must be a list of strings, but holds {_kind(item)}")
    return tuple(value)


def _boolean(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise SettingsError(f"{where} must be `true` or `false`, not {_kind(value)}")
    return value


def _string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise SettingsError(f"{where} must be a string, not {_kind(value)}")
    return value


def _seconds(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise SettingsError(f"{where} must be a number of seconds, or 0 for no limit, not {value!r}")
    return float(value)


def _certainty(value: object, where: str) -> str:
    if value not in CERTAINTIES:
        raise SettingsError(f"{where} must be one of {', '.join(map(repr, CERTAINTIES))}, not {value!r}")
    return str(value)


def _severity(value: object, where: str) -> str:
    if value not in SEVERITIES:
        raise SettingsError(f"{where} must be one of {', '.join(map(repr, SEVERITIES))}, not {value!r}")
    return str(value)


def _target(value: object, where: str) -> str:
    if value not in TARGETS:
        raise SettingsError(f"{where} must be one of {', '.join(map(repr, TARGETS))}, not {value!r}")
    return str(value)


def _environment(value: object, where: str) -> tuple[str, ...]:
    for item in _strings(value, where):
        if item not in ENVIRONMENT:
            raise SettingsError(f"{where} may hold {', '.join(map(repr, ENVIRONMENT))}, not {item!r}")
    return tuple(value)  # type: ignore[arg-type]


def _per_file(value: object, where: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise SettingsError(f"{where} must be a table of patterns to lists of rules, not {_kind(value)}")
    for pattern in value:
        patterns((pattern.removeprefix("!"),), where, base=Path(), root=Path())
    return tuple((pattern, _strings(group, f"{where}, `{pattern}`,")) for pattern, group in value.items())


def _sharding(value: object, where: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise SettingsError(f"{where} must be a table of patterns to lists of dimensions, not {_kind(value)}")
    rules = []
    for pattern, given in value.items():
        inner = f"{where}, `{pattern}`,"
        dimensions = _strings(given, inner)
        try:
            re.compile(pattern)
        except re.error as error:
            raise SettingsError(f"{inner} is not a valid regular expression: {error}") from None
        for one in dimensions:
            if one not in SHARDING_DIMENSIONS:
                raise SettingsError(f'{inner} may hold "model", "data" and "", not {one!r}')
        rules.append((pattern, dimensions))
    return tuple(rules)


def _count(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SettingsError(f"{where} must be a positive number of devices, not {value!r}")
    return value


_KEYS: Mapping[str, Callable[[object, str], Any]] = {
    "select": _strings,
    "ignore": _strings,
    "extend-select": _strings,
    "exclude": _strings,
    "extend-exclude": _strings,
    "force-exclude": _boolean,
    "respect-gitignore": _boolean,
    "per-file-ignores": _per_file,
    "trace-roots": _strings,
    "traced": _certainty,
    "min-severity": _severity,
    "target": _target,
    "keep-gpu": _boolean,
    "include-tests": _boolean,
    "environment": _environment,
    "sharding": _sharding,
    "sharding-devices": _count,
    "cache-dir": _string,
    "time-limit": _seconds,
}


#: Tables within the table, which the commands of these names read.
_TABLES = ("verify",)


def _kind(value: object) -> str:
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    return kinds.get(type(value), "a list" if isinstance(value, list) else "a table")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def matches(patterns: tuple[str, ...], relative: str) -> bool:
    """Whether a file or folder, given with slashes and relative to the root, fits one of the patterns.

    A pattern without a slash is about the last name of the path, one with a slash about the whole path
    (or, where that begins with a slash, the absolute path), as in ruff.
    """
    names, by_name, by_path = _compiled(patterns)
    name = relative.rpartition("/")[2]
    return (
        name in names
        or (by_name is not None and by_name.fullmatch(name) is not None)
        or (by_path is not None and by_path.fullmatch(relative) is not None)
    )


@lru_cache(maxsize=64)
def _compiled(
    patterns: tuple[str, ...],
) -> tuple[frozenset[str], re.Pattern[str] | None, re.Pattern[str] | None]:
    names, by_name, by_path = set(), [], []
    for pattern in patterns:
        pattern = pattern.removeprefix("./").rstrip("/")
        if "/" in pattern:
            by_path.append(_regex(pattern))
        elif any(character in pattern for character in "*?["):
            by_name.append(_regex(pattern))
        else:
            names.add(pattern)
    return frozenset(names), _union(by_name), _union(by_path)


def _union(expressions: list[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(expressions), re.DOTALL) if expressions else None


def _regex(glob: str) -> str:
    """A glob as a regular expression: `*` and `?` stop at slashes, `**` does not."""
    parts, position = [], 0
    while position < len(glob):
        rest = glob[position:]
        if rest.startswith("**/"):
            parts.append("(?:.*/)?")
            position += 3
        elif rest.startswith("**"):
            parts.append(".*")
            position += 2
        elif rest[0] == "*":
            parts.append("[^/]*")
            position += 1
        elif rest[0] == "?":
            parts.append("[^/]")
            position += 1
        elif rest[0] == "[" and (end := rest.find("]", 2)) > 0:
            inside = re.sub(r"[\\\[&~|^]", r"\\\g<0>", rest[1:end])
            parts.append(f"[{'^' + inside[1:] if inside[0] == '!' else inside}]")
            position += end + 1
        else:
            parts.append(re.escape(rest[0]))
            position += 1
    return "".join(parts)
