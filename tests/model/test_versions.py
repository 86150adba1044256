"""The table of versions that fit together."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tpulint.knowledge.versions import COMPARED_BY_RUNTIME, TESTED, Conflict, conflicts, is_tested

ROOT = Path(__file__).parents[2]


def test_tested_versions_are_those_of_the_extras_of_the_evidence_and_of_the_runtime() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pins = dict(one.split("==") for extra in ("verify", "tpu") for one in extras[extra] if "[" not in one)
    assert {name: pins[name] for name in TESTED if name in pins} == {
        name: TESTED[name] for name in TESTED if name in pins
    }
    evidence = json.loads((ROOT / "docs" / "data" / "evidence.json").read_text())["versions"]
    assert [] == [name for name in TESTED if name in evidence and not is_tested(name, evidence[name])]
    runtime = json.loads(
        (ROOT / "runtime" / "src" / "torchax_compat" / "patches" / "versions.json").read_text()
    )
    assert {name: [TESTED[name]] for name in COMPARED_BY_RUNTIME} == runtime


def test_tested_versions_fit_together() -> None:
    assert [] == list(conflicts(TESTED))


@pytest.mark.parametrize(
    ("versions", "changed", "wanted"),
    [
        ({"torch": "2.5.1", "torchvision": "0.19.0"}, "torchvision", "0.20"),
        ({"torch": "2.13.0+cpu", "torchvision": "0.27.1"}, "torchvision", "0.28"),
        ({"torch": "2.99.0", "torchvision": "0.27.1"}, "torchvision", ""),
        ({"torch": "2.8.0", "torch-xla": "2.9.0"}, "torch-xla", "2.8"),
        ({"jax": "0.9.2", "jaxlib": "0.10.0"}, "jaxlib", "0.9.2"),
        ({"jax": "0.9.0.1", "libtpu": "0.0.32"}, "libtpu", ""),
        ({"jax": "0.10.2", "libtpu": "0.0.4"}, "libtpu", "0.0.42"),
        ({"torch-xla": "2.9.0", "libtpu": "0.0.42.1"}, "libtpu", "0.0.21"),
        ({"torchax": "0.0.13", "jax": "0.5.3"}, "jax", ""),
    ],
)
def test_versions_that_do_not_fit(versions: dict[str, str], changed: str, wanted: str) -> None:
    found = [(one.changed, one.wanted) for one in conflicts(versions)]
    assert found == ([(changed, wanted)] if changed != "libtpu" or wanted else [])


@pytest.mark.parametrize(
    "versions",
    [
        {"torch": "2.13.0", "torchvision": "0.28.0"},
        {"torch": "2.13.0", "torchvision": "0.99.0"},
        {"torch": "nightly", "torchvision": "0.28.0"},
        {"jax": "0.10.2", "jaxlib": "0.10.1", "libtpu": "0.0.42.1"},
        {"jax": "0.3.25", "libtpu": "0.0.42.1"},
        {},
    ],
)
def test_versions_that_fit_or_are_not_known(versions: dict[str, str]) -> None:
    found: list[Conflict] = list(conflicts(versions))
    assert [] == found
