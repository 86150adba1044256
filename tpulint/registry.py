"""Finds the rules: every module below the packages named in the `tpulint.rules` entry points."""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
import re
import sys
from collections.abc import Mapping
from functools import cache

from tpulint.rules_api import Rule

GROUP = "tpulint.rules"
_CODE = re.compile(r"[A-Z]+\d{3}")

#: Code of the finding that the engine itself makes for a file that does not parse.
SYNTAX_ERROR = ("TPU000", "syntax-error")
#: Code of the finding that the engine makes for a file whose analysis takes too long.
CUT_OFF = ("TPU002", "analysis-cut-off")


class RegistryError(Exception):
    """Rules that cannot be loaded; the text says which and why."""


@cache
def packages() -> tuple[str, ...]:
    """The names of the installed rule packages."""
    return tuple(sorted({point.value for point in importlib.metadata.entry_points(group=GROUP)}))


@cache
def rules() -> tuple[Rule, ...]:
    """All installed rules by code.

    Raises:
        RegistryError: for a rule package that cannot be imported, a code that is not letters and three
            digits, a module that is not the rule's, or a code or name that is used twice.
    """
    found: dict[str, Rule] = {}
    for name in packages():
        for rule in _package_rules(name):
            if not _CODE.fullmatch(rule.code):
                raise RegistryError(
                    f"the code `{rule.code}` of `{rule.module}` is not letters and three digits"
                )
            other = found.setdefault(rule.code, rule)
            if other is not rule:
                raise RegistryError(f"code {rule.code} is used by both `{other.module}` and `{rule.module}`")
    named: dict[str, Rule] = {}
    for rule in found.values():
        for name in (rule.name, *rule.former):
            other = named.setdefault(name, rule)
            if other is not rule:
                raise RegistryError(f"name `{name}` is used by both `{other.module}` and `{rule.module}`")
    return tuple(found[code] for code in sorted(found))


@cache
def former_names() -> Mapping[str, str]:
    """The current name of each rule that was renamed, by its former names."""
    return {former: rule.name for rule in rules() for former in rule.former}


def _package_rules(name: str) -> list[Rule]:
    at = name
    try:
        package = importlib.import_module(name)
        found = []
        for module in pkgutil.walk_packages(getattr(package, "__path__", []), f"{name}."):
            at = module.name
            if not module.ispkg:
                rule = getattr(importlib.import_module(module.name), "rule", None)
                if isinstance(rule, Rule):
                    if rule.module not in sys.modules:
                        reason = f"the module `{rule.module}` is not imported; pass `module=__name__`"
                        raise ValueError(f"rule {rule.code}: {reason}")
                    found.append(rule)
        return found
    except Exception as error:  # a third party's package may fail in any way
        raise RegistryError(
            f"the rules of `{at}` cannot be loaded: {type(error).__name__}: {error}"
        ) from error
