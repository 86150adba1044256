"""The registry refuses rules that cannot be told apart."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tpulint import registry
from tpulint.rules_api import Rule, matchers


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Rule]]:
    found: list[Rule] = []
    monkeypatch.setattr(registry, "packages", lambda: ("pack",))
    monkeypatch.setattr(registry, "_package_rules", lambda _: found)
    registry.rules.cache_clear()
    yield found
    registry.rules.cache_clear()


def rule(code: str, name: str, *former: str) -> Rule:
    return Rule(code, "a rule", module=f"pack.group.{name}", fix=None, former=former)


@pytest.mark.parametrize(
    "second",
    [rule("TPU998", "odd_call"), rule("TPU998", "other", "odd-call"), rule("TPU998", "older_call")],
)
def test_a_name_of_two_rules_is_an_error(installed: list[Rule], second: Rule) -> None:
    installed += [rule("TPU997", "odd_call", "older-call"), second]
    with pytest.raises(registry.RegistryError, match=r"name `.*` is used by both `pack.group.odd_call` and"):
        registry.rules()


def test_a_code_of_two_rules_is_an_error(installed: list[Rule]) -> None:
    installed += [rule("TPU997", "odd_call"), rule("TPU997", "other")]
    with pytest.raises(registry.RegistryError, match="code TPU997 is used by both"):
        registry.rules()


@pytest.mark.parametrize("code", ["ACME1", "acme101", "101", "TPU1001"])
def test_a_code_that_is_not_letters_and_three_digits_is_an_error(installed: list[Rule], code: str) -> None:
    installed += [rule(code, "odd_call")]
    with pytest.raises(registry.RegistryError, match=f"`{code}` of `pack.group.odd_call` is not"):
        registry.rules()


def test_a_rule_is_in_a_module_of_a_package() -> None:
    with pytest.raises(
        ValueError, match="rule ACME101: the module `odd` is in no package; pass `module=__na"
    ):
        Rule("ACME101", "a rule", module="odd", fix=None)


def test_a_rule_of_a_module_that_is_not_imported_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "odd_pack").mkdir()
    (tmp_path / "odd_pack" / "__init__.py").write_text("")
    (tmp_path / "odd_pack" / "odd.py").write_text(
        "from tpulint.rules_api import Rule\n\nrule = Rule('ACME101', 'odd', module='other.odd', fix=None)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "packages", lambda: ("odd_pack",))
    registry.rules.cache_clear()
    with pytest.raises(
        registry.RegistryError,
        match=r"odd_pack\.odd` cannot.*: rule ACME101: the module `other\.odd` is not imported",
    ):
        registry.rules()
    registry.rules.cache_clear()


@pytest.mark.parametrize(
    ("node", "options", "why"),
    [
        ("Call", {}, "no pattern of an expression or statement: 'Call'"),
        (matchers.Nope(), {}, "no pattern of an expression or statement: Nope"),
        (matchers.Arg(), {}, "no pattern of an expression or statement: Arg"),
        (matchers.If(), {"named": {"f"}}, "`named` is for patterns of calls"),
        (
            matchers.Call(),
            {"passing": {"f"}},
            "a pattern goes with names, and with neither `passing` nor a function as `named`",
        ),
        (ast.Call, {"named": "f"}, "`named` is a string, and is to be a set of strings"),
        (ast.Call, {"passing": "device"}, "`passing` is a string, and is to be a set of strings"),
        (
            ast.If,
            {"named": {"f"}},
            "`named` is for `ast.Call`, `ast.Attribute`, `ast.Constant`, not for `ast.If`",
        ),
        (ast.If, {"passing": {"f"}}, "`passing` is for `ast.Call`, not for `ast.If`"),
        (ast.Call, {"handled": "all"}, "`handled` is no entry of `tpulint.knowledge.handled`: 'all'"),
    ],
)
def test_options_that_do_not_go_with_a_node_are_an_error(node: Any, options: Any, why: str) -> None:
    made = Rule("ACME101", "a rule", module="pack.group.odd", fix=None)
    with pytest.raises(TypeError, match=f"^{re.escape(f'rule ACME101: {why}')}$"):
        made.on(node, **options)


def test_rules_are_sorted_by_code(installed: list[Rule]) -> None:
    installed += [rule("TPU998", "other"), rule("TPU997", "odd_call")]
    assert ["TPU997", "TPU998"] == [one.code for one in registry.rules()]


def test_a_rule_of_a_pack_has_an_address_only_if_it_is_given_one() -> None:
    pack = Rule("ACME101", "a rule", module="pack.group.odd", fix=None)
    named = Rule("ACME101", "a rule", module="pack.group.odd", fix=None, url="https://acme.example")
    assert (None, "https://acme.example") == (pack.url, named.url)
    own = Rule("TPU997", "a rule", module="pack.group.odd", fix=None)
    assert own.url is not None
    assert own.url.endswith("/docs/rules/odd.md")
