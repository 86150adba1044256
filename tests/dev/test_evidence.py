"""The page of the evidence: cases are counted by the gravest outcome of their code."""

from __future__ import annotations

import json
from pathlib import Path

from tpulint.dev import evidence


def row(case: str, side: str, stage: str, happened: str, state: str = "verified") -> dict[str, str]:
    return {
        "code": "TPU301",
        "rule": "item_in_traced_code",
        "case": case,
        "side": side,
        "stage": stage,
        "happened": happened,
        "state": state,
    }


def page(tmp_path: Path, *rows: dict[str, str]) -> str:
    (tmp_path / "docs/data").mkdir(parents=True)
    (tmp_path / evidence.DATA).write_text(evidence.data(json.dumps(rows)))
    return evidence.render(tmp_path)


def test_cases_are_counted_by_their_gravest_outcome_and_by_compilation(tmp_path: Path) -> None:
    text = page(
        tmp_path,
        row("a", "original", "reference", "runs"),
        row("a", "original", "eager", "equal: 3 operations"),
        row("a", "original", "jit", "raises ConcretizationTypeError: Abstract tracer"),
        row("a", "fixed", "jit", "narrowed: 3 operations"),
        row("a", "fixed", "tpu v5e:2x2", "compiles: TPU v5e, 12 bytes"),
        row("b", "original", "reference", "runs"),
        row("b", "original", "eager", "equal: 1 operations"),
    )
    expected = "| 2 | 2 | 1 raise, 1 equal | 1 equal in 32 bits | 1 |"
    assert f"| [TPU301 item-in-traced-code](rules/item-in-traced-code.md) {expected}" in text
    assert "**2 of 2 cases are verified**, 0 failed, and 0 were not run." in text


def test_failed_cases_and_those_that_were_not_run_are_listed(tmp_path: Path) -> None:
    text = page(
        tmp_path,
        row("a", "original", "reference", "runs"),
        row("a", "original", "eager", "raises ValueError: x", "failed"),
        row("b", "original", "reference", "triton needs a GPU", "not run"),
    )
    link = "[item_in_traced_code/{0}](../fixtures/item_in_traced_code/{0})"
    assert f"| {link.format('b')} | triton needs a GPU |" in text
    assert f"## Failed\n\n- {link.format('a')}\n" in text


def test_cases_of_other_environments_are_shown_apart_from_their_record(tmp_path: Path) -> None:
    entries = {
        "rule/a": {"state": "verified", "before": "raises X: y", "after": "equal: 1 values"},
        "rule/b": {"state": "not run", "note": "needs a TPU"},
    }
    (tmp_path / "fixtures").mkdir()
    (tmp_path / "fixtures/evidence-jax.json").write_text(json.dumps({"pins": [], "cases": entries}))
    other = row("c", "original", "recorded", "raises X: y", "locked") | {"environment": "jax"}
    text = page(tmp_path, row("a", "original", "eager", "equal"), other)
    assert "**1 of 1 cases are verified**" in text
    assert "## JAX without torchax" in text
    assert "\n1 of them are verified" in text
    assert "| [rule/a](../fixtures/rule/a) | raises X: y | equal: 1 values |  |" in text
    assert "| [rule/b](../fixtures/rule/b) |  |  | needs a TPU |" in text


def test_paths_of_installed_packages_are_shortened_in_the_data() -> None:
    happened = (
        "raises ImportError: cannot import name 'a' from 'jax' (/home/x/.venv/lib/site-packages/jax/b.py)"
    )
    text = evidence.data(json.dumps([row("a", "original", "eager", happened)]))
    assert "from 'jax' (jax/b.py)" in text
