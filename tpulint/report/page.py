"""A rule's page, and the list of rules, for the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, TextIO

from tpulint.report.paint import Paint

if TYPE_CHECKING:
    from tpulint.rules_api import Rule


def listing(rules: Sequence[Rule], paint: Paint) -> str:
    """The rules by family, with the code, the fix mark and the summary."""
    width = max((len(rule.name) for rule in rules), default=0)
    parts = []
    for title, group in groupby(rules, key=lambda rule: rule.family_title):
        parts.append(paint.bold(title) + "\n")
        parts += [
            f"  {paint.code(rule.code)}  {paint.good('[fix]' if _fixes(rule) else '     ')}  "
            f"{rule.name:<{width}}  {summary(rule)}\n"
            for rule in group
        ]
    return "".join(parts)


def summary(rule: Rule) -> str:
    """The rule's summary, with a note where the rule is off by default."""
    return f"{rule.summary} (off by default)" if rule.optional else rule.summary


def listing_json(rules: Iterable[Rule]) -> str:
    """The same as a list of objects."""
    return json.dumps([as_object(rule) for rule in rules], indent=2) + "\n"


def as_object(rule: Rule) -> Mapping[str, object]:
    """What a program may want to know of a rule."""
    return {
        "code": rule.code,
        "name": rule.name,
        "former_names": list(rule.former),
        "summary": rule.summary,
        "family": rule.family,
        "severity": rule.severity,
        "fixable": rule.fixable,
        "optional": rule.optional,
        "url": rule.url,
    }


def text(rule: Rule) -> str:
    """The page as Markdown: what docs/rules/ holds, less the example."""
    kept = ", ".join(f"`{name}`" for name in rule.former)
    names = "Former name" if len(rule.former) == 1 else "Former names"
    formerly = f"\n\n{names}, which suppressions and settings may still use: {kept}." if kept else ""
    head = f"# {rule.name} ({rule.code})\n\nGroup: {rule.family_title}.\n{severity_words(rule)}\n"
    head += f"Fix: {fix_words(rule)}."
    if rule.optional:
        head += f'\nOff by default; `extend-select = ["{rule.code}"]` in the settings turns the rule on.'
    return f"{head}{formerly}\n\n{rule.doc.strip()}\n"


def severity_words(rule: Rule) -> str:
    """What happens on a TPU without a change, in a sentence."""
    words = {
        "blocks": "the program fails, gives wrong results, or does not use the TPU",
        "slow": "the program is slower than it can be",
        "cosmetic": "the code has no use on TPU, but does no harm",
    }
    return f"Severity: {rule.severity} ({words[rule.severity]})."


def fix_words(rule: Rule) -> str:
    """The best that the rule's fixes can do, in words."""
    return {
        None: "none",
        "display": "shown, not applied",
        "safe": "safe",
        "unsafe": "unsafe, with `--unsafe-fixes`",
    }[rule.fixable]


def show(rule: Rule, stream: TextIO, paint: Paint) -> None:
    """The page, laid out for a terminal or as it is written."""
    if not paint.on:
        stream.write(text(rule))
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(file=stream, force_terminal=True, width=None).print(Markdown(text(rule)))


def _fixes(rule: Rule) -> bool:
    return rule.fixable not in (None, "display")
