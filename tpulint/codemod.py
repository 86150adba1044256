"""The fixes of rules as LibCST codemods.

`codemods` makes a class for each fixable rule of a rule pack, for `python -m libcst.tool codemod`. LibCST
gives a codemod one file after another, often in several processes, so the project is analyzed before: `Plans`
is a metadata provider whose `gen_cache` fixes all files in memory, and keeps the fixes of each.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import ClassVar, TypeAlias

import libcst as cst
from libcst.codemod import CodemodCommand, CodemodContext, SkipFile
from libcst.metadata import BaseMetadataProvider

from tpulint.digest import digest
from tpulint.engine.cache import MemoryCache
from tpulint.engine.desk import Unit
from tpulint.engine.fix import fix_units, refixed
from tpulint.engine.run import as_units, read
from tpulint.finding import Applicability, Fix
from tpulint.invocation import asked_for
from tpulint.registry import rules
from tpulint.rewrite.tree import RefusedError
from tpulint.settings import Selectors, Settings, load
from tpulint.source import SourceError

#: The fixes of one file, round by round.
Rounds: TypeAlias = tuple[tuple[Fix, ...], ...]
#: The codemod that applies the fixes of all rules.
ALL = "Migrate"


@dataclass(frozen=True, slots=True)
class Plan:
    """The fixes of one file within its project.

    Args:
        text: the digest of the bytes that they are for; "" if the file is left alone.
        safe: the safe fixes, round by round.
        all: the safe and the unsafe fixes, round by round.
        errors: why the file, or a part of it, cannot be fixed.
    """

    text: str = ""
    safe: Rounds = ()
    all: Rounds = ()
    errors: tuple[str, ...] = ()


class Plans(BaseMetadataProvider[Plan]):
    """The plan of each file, at the root of its tree."""

    #: The codes of the rules whose fixes are applied; none for those that the settings select.
    codes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, cache: object = None) -> None:
        super().__init__(cache or Plan())  # the standard input has no cache

    def _gen_impl(self, module: cst.Module) -> None:
        assert isinstance(self.cache, Plan)
        self.set_metadata(module, self.cache)

    @classmethod
    def gen_cache(cls, root_path: Path, paths: Sequence[str], **_: object) -> Mapping[str, Plan]:
        """The plans of files, from one analysis of all.

        As `tpulint fix` does, it takes the settings of the nearest `pyproject.toml`, and leaves files alone
        that these exclude, and those with tests.
        """
        by_path = {str((root_path / path).absolute()): path for path in paths}
        given = asked_for(tuple(by_path), select=cls.codes, force_exclude=True)
        units, errors = read(given.files, None)
        plans = plans_of(units, given.settings)
        failed = {error.path: Plan(errors=(error.message,)) for error in errors}
        known = {**failed, **plans}
        return {path: known.get(full, Plan()) for full, path in by_path.items()}


def plans_of(units: Mapping[str, Unit], settings: Settings) -> dict[str, Plan]:
    """The plans of files that are one project."""
    known = MemoryCache()  # both runs begin with the same analysis
    safe = fix_units(units, settings, jobs=None, cache=known, unsafe=False)
    full = fix_units(units, settings, jobs=None, cache=known, unsafe=True)
    errors: dict[str, dict[str, None]] = {}
    for error in full.errors:
        errors.setdefault(error.path, {})[error.message] = None
    return {
        path: Plan(
            digest(unit.data),
            safe.rounds.get(path, ()),
            full.rounds.get(path, ()),
            tuple(errors.get(path, ())),
        )
        for path, unit in units.items()
    }


class FixCommand(CodemodCommand):
    """A codemod that applies fixes.

    A tree that is not the file as it was analyzed, since it comes from the standard input or from another
    codemod, is analyzed by itself.
    """

    #: The provider of the fixes.
    plans: ClassVar[type[Plans]]

    def __init__(self, context: CodemodContext, *, safe: bool = False) -> None:
        super().__init__(context)
        self._safe = safe

    @staticmethod
    def add_args(arg_parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        arg_parser.add_argument("--safe", action="store_true", help="apply safe fixes only")

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        """The file with the fixes."""
        path, data = self.context.filename or "-", tree.bytes
        plan = self.get_metadata(self.plans, tree)
        if self.context.metadata_manager is None or plan.text not in ("", digest(data)):
            plan = self._alone(path, data)
        for error in plan.errors:
            self.warn(error)
        rounds = plan.safe if self._safe else plan.all
        try:
            return cst.parse_module(refixed(path, data, rounds)) if rounds else tree
        except (SourceError, RefusedError) as error:
            raise SkipFile(str(error)) from error

    def _alone(self, path: str, data: bytes) -> Plan:
        settings = load(Path(path).absolute().parent)
        if self.plans.codes:
            settings = replace(settings, command_line=Selectors(select=self.plans.codes))
        return plans_of(as_units({path: data}), settings)[path]


@cache
def codemods(module: str) -> Mapping[str, type[FixCommand]]:
    """The codemods of a rule pack, by name: one for each rule with fixes for Python, one for all rules.

    Args:
        module: the name of the module that they are attributes of, in the top package of the rule pack.
    """
    package = f"{module.rpartition('.')[0]}."
    found = {ALL: _codemod(module, ALL, "Apply the fixes of all rules, as `tpulint fix` does.", ())}
    for rule in rules():
        is_fixable = rule.handlers and rule.fixable not in (None, Applicability.DISPLAY)
        if is_fixable and rule.module.startswith(package):
            name = "".join(word.capitalize() for word in rule.name.split("-"))
            description = f"Fix {rule.code} ({rule.name}): {rule.summary}."
            found[name] = _codemod(module, name, description, (rule.code,))
    return found


def _codemod(module: str, name: str, description: str, codes: tuple[str, ...]) -> type[FixCommand]:
    """A codemod and its provider; LibCST sends both to its processes by name."""
    plans = type("plans", (Plans,), {"codes": codes, "__module__": module, "__qualname__": f"{name}.plans"})
    attributes = {
        "plans": plans,
        "METADATA_DEPENDENCIES": (plans,),
        "DESCRIPTION": description,
        "__doc__": description,
        "__module__": module,
    }
    return type(name, (FixCommand,), attributes)
