from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tpulint.fixture import Case
from tpulint.verify import Decide, Options, Result, State

if TYPE_CHECKING:
    from tests.cli.conftest import Outcome

Command = Callable[..., "Outcome"]


@dataclass
class Verifier:
    """What the fake verifier will say of every case, and what it was asked."""

    state: State = State.VERIFIED
    cases: list[str] = field(default_factory=list)
    options: Options = field(default_factory=Options)

    def verify(
        self,
        cases: Iterable[Case],
        fix: Any,
        options: Options,
        tell: Callable[[str], None],
        decide: Decide | None = None,
    ) -> Iterator[Result]:
        self.options = options
        tell("no TPU here")
        for case in cases:
            self.cases.append(f"{case.rule}/{case.name}")
            yield Result(case.rule, case.name, "reference", "original", "runs", "runs", State.VERIFIED, 0.5)
            yield Result(case.rule, case.name, "eager", "fixed", "equal", "differs: by 1", self.state, 1.0)


@pytest.fixture
def verifier(project: Path, monkeypatch: pytest.MonkeyPatch) -> Verifier:
    fake = Verifier()
    monkeypatch.setattr("tpulint.verify.verify", fake.verify)
    for case in ("hardcoded_cuda_device/example", "item_in_traced_code/example", "item_in_traced_code/clean"):
        (project / "fixtures" / case).mkdir(parents=True)
        (project / "fixtures" / case / "before.py").write_text("import torch\n")
    return fake


@pytest.fixture(autouse=True)
def folders(engine: object, monkeypatch: pytest.MonkeyPatch) -> None:
    import tpulint.registry as registry

    for rule in registry.rules():
        monkeypatch.setattr(rule, "folder", rule.name.replace("-", "_"), raising=False)


def test_report_has_a_block_per_case_and_a_row_per_rule(tpulint: Command, verifier: Verifier) -> None:
    outcome = tpulint("verify-rules", "TPU101")
    expected = """\
  side      stage         claimed                             happened                            state
hardcoded_cuda_device/example TPU101 verified 1.5 s
  original  reference     runs                                runs                                verified
  fixed     eager         equal                               differs: by 1                       verified
TPU101  hardcoded_cuda_device  1 verified

Cases: 1 verified
"""
    assert (0, expected, "note: no TPU here\n") == (outcome.code, outcome.out, outcome.err)


def test_a_failure_exits_1_and_is_printed_in_full(tpulint: Command, verifier: Verifier) -> None:
    verifier.state = State.FAILED
    outcome = tpulint("verify-rules", "-q")
    assert 1 == outcome.code
    assert "    claimed:  equal\n    happened: differs: by 1\n" in outcome.out
    assert outcome.out.endswith("Cases: 3 failed\n")


def test_quiet_omits_verified_cases(tpulint: Command, verifier: Verifier) -> None:
    outcome = tpulint("verify-rules", "--quiet", "TPU101")
    assert "TPU101  hardcoded_cuda_device  1 verified\n\nCases: 1 verified\n" == outcome.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), ["hardcoded_cuda_device/example", "item_in_traced_code/clean", "item_in_traced_code/example"]),
        (("TPU3",), ["item_in_traced_code/clean", "item_in_traced_code/example"]),
        (("item-in-traced-code/clean",), ["item_in_traced_code/clean"]),
        (("cuda_literal/example",), ["hardcoded_cuda_device/example"]),
        (("hardcoded_cuda_device", "clean"), ["hardcoded_cuda_device/example", "item_in_traced_code/clean"]),
    ],
)
def test_cases_are_chosen_by_code_rule_or_name(
    tpulint: Command, verifier: Verifier, words: tuple[str, ...], expected: list[str]
) -> None:
    tpulint("verify-rules", *words)
    assert expected == verifier.cases


def test_options_reach_the_verifier(tpulint: Command, verifier: Verifier) -> None:
    tpulint(
        "verify-rules", "--tpu", "v4", "--tpu", "v5e:4x4", "--platform", "cpu", "--timeout", "9", "-j", "1"
    )
    assert Options(9.0, ("v4:2x2x1", "v5e:4x4"), "cpu", 1) == verifier.options


def test_results_are_printed_as_json(tpulint: Command, verifier: Verifier) -> None:
    rows = json.loads(tpulint("verify-rules", "TPU101", "--output-format", "json").out)
    assert {
        "code": "TPU101",
        "rule": "hardcoded_cuda_device",
        "case": "example",
        "stage": "eager",
        "side": "fixed",
        "claimed": "equal",
        "happened": "differs: by 1",
        "state": "verified",
        "seconds": 1.0,
        "notes": [],
        "outcome": "",
        "environment": "",
    } == rows[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("TPU999",), "no case in `fixtures` is called `TPU999`"),
        (("--fixtures", "nowhere"), "there is no folder `nowhere` with cases"),
        (("--fixtures", "."), "`.` holds no cases"),
        (("--platform", "abacus"), "'abacus' is not one of"),
    ],
)
def test_no_cases_to_execute_exits_2(
    tpulint: Command, verifier: Verifier, arguments: tuple[str, ...], message: str
) -> None:
    (verifier.cases).clear()
    outcome = tpulint("verify-rules", *arguments)
    assert 2 == outcome.code
    assert message in outcome.err
    assert [] == verifier.cases


def test_cases_without_run_py_exit_2(tpulint: Command, project: Path) -> None:
    (project / "fixtures" / "item_in_traced_code" / "example").mkdir(parents=True)
    (project / "fixtures" / "item_in_traced_code" / "example" / "before.py").write_text("import torch\n")
    outcome = tpulint("verify-rules")
    assert 2 == outcome.code
    assert "no run.py" in outcome.out
    assert outcome.out.endswith("Cases: 1 not run\nNothing was executed, so nothing is known.\n")


def test_missing_packages_are_named(
    tpulint: Command, verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tpulint.verify.missing_packages", lambda: ("torchax", "jax"))
    outcome = tpulint("verify-rules")
    assert 2 == outcome.code
    expected = (
        "verify-rules needs torchax, jax, which is not installed: pip install 'tpulint[verify]' torchax"
    )
    assert expected in outcome.err
