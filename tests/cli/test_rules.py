from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tpulint import __version__

if TYPE_CHECKING:
    from tests.cli.conftest import Outcome

Command = Callable[..., "Outcome"]


def test_rules_are_listed_by_family(tpulint: Command) -> None:
    expected = """\
placement
  TPU101  [fix]  hardcoded-cuda-device    hardcoded cuda device found
trace hazards
  TPU301         item-in-traced-code      item in traced code found
  TPU302         tensor-dependent-branch  tensor dependent branch found
torch upgrade
  UPG101         removed-function         removed function found (off by default)
"""
    outcome = tpulint("rules")
    assert (0, expected) == (outcome.code, outcome.out)


def test_rules_are_listed_as_json(tpulint: Command) -> None:
    rows = json.loads(tpulint("rules", "--output-format", "json").out)
    assert {
        "code": "TPU301",
        "name": "item-in-traced-code",
        "former_names": [],
        "summary": "item in traced code found",
        "family": "trace_hazards",
        "severity": "blocks",
        "fixable": "display",
        "optional": False,
        "url": "https://example.org/item-in-traced-code.md",
    } == rows[1]


@pytest.mark.parametrize("name", ["TPU301", "tpu301", "item-in-traced-code", "item_in_traced_code"])
def test_a_page_is_found_by_code_or_name(tpulint: Command, name: str) -> None:
    expected = """\
# item-in-traced-code (TPU301)

Group: trace hazards.
Severity: blocks (the program fails, gives wrong results, or does not use the TPU).
Fix: shown, not applied.

item-in-traced-code found.

## What it does
Flags `item-in-traced-code`.
"""
    outcome = tpulint("explain", name)
    assert (0, expected) == (outcome.code, outcome.out)


def test_page_of_an_optional_rule_says_how_to_turn_it_on(tpulint: Command) -> None:
    assert 'Off by default; `extend-select = ["UPG101"]`' in tpulint("explain", "UPG101").out


def test_a_page_is_found_by_a_former_name_and_states_it(tpulint: Command) -> None:
    page = tpulint("explain", "cuda_literal").out
    assert page.startswith("# hardcoded-cuda-device (TPU101)\n")
    assert "Former name, which suppressions and settings may still use: `cuda-literal`." in page


def test_explain_formats_the_page_for_a_terminal(tpulint: Command) -> None:
    outcome = tpulint("explain", "TPU301", "--color", "always")
    assert "\x1b[" in outcome.out
    assert "## What" not in outcome.out


def test_version_command_and_option_print_the_same(tpulint: Command) -> None:
    assert f"tpulint {__version__}\n" == tpulint("version").out == tpulint("--version").out
