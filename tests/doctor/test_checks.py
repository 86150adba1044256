"""Conclusions from the results of probes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tpulint.doctor import Check, ProbeResults, State, diagnose
from tpulint.knowledge.versions import TESTED

CPU = {"platform": "cpu", "kind": "cpu", "memory": 0}
TPU = {"platform": "tpu", "kind": "TPU v5 lite", "memory": 16 * 2**30}
STEP = {
    "device": "TPU v5 lite",
    "platform": "tpu",
    "loss": 2.081,
    "expected_loss": 2.0835,
    "norm": 1.09,
    "expected_norm": 1.0935,
    "first_seconds": 3.2,
    "second_seconds": 0.004,
    "learns": True,
}


def package(version: str, *, name: str = "", folder: str = "/env", origin: str | None = "") -> dict[str, Any]:
    found = f"/env/{name}/__init__.py" if origin == "" else origin
    return {"installed": [{"version": version, "folder": folder}], "module": name, "origin": found}


def environment(
    devices: list[dict[str, Any]] | None = None,
    *,
    versions: Mapping[str, str | None] | None = None,
    results: dict[str, Any] | None = None,
    **facts: Any,
) -> ProbeResults:
    """A TPU host on which all is well, but for what is given."""
    installed = {**TESTED, "torchax-compat": "0.1.0", **(versions or {})}
    devices = devices or [TPU] * 8
    return ProbeResults(
        {
            "python": "3.11.7",
            "executable": "/env/bin/python",
            "packages": {name: package(one, name=name) for name, one in installed.items() if one},
            "variables": {"JAX_COMPILATION_CACHE_DIR": "/cache"},
            "chips": ["/dev/accel0"],
            "nvidia": [],
            **facts,
        },
        {
            "torch": {"version": "2.13.0+cpu", "cuda": None},
            "torchvision": {"version": "0.28.0", "kept": [0]},
            "jax": {"backend": devices[0]["platform"], "processes": 1, "devices": devices},
            "torchax": {"version": "0.1.0", "value": 4.0},
            "step": STEP,
            **(results or {}),
        },
    )


def bad(found: ProbeResults) -> list[Check]:
    return [one for one in diagnose(found) if one.state is not State.OK]


def test_a_tpu_host_on_which_all_is_well_has_no_problem() -> None:
    found = environment()
    assert [] == bad(found)
    by_name = {one.name: one for one in diagnose(found)}
    assert "8 TPU (TPU v5 lite, 16.0 GiB each)" == by_name["devices"].message
    assert by_name["training step"].message.startswith("on TPU (TPU v5 lite): loss 2.081000")


def test_missing_packages_come_with_the_commands_for_the_host() -> None:
    (problem,) = bad(environment(versions={"torchax": None, "libtpu": None}))
    assert "not installed: torchax" == problem.message
    assert f"pip install torch=={TESTED['torch']}" in problem.remedy
    assert f"'jax[tpu]=={TESTED['jax']}'" in problem.remedy
    elsewhere = environment(versions={"torchax": None}, chips=[], devices=[CPU])
    assert f"'jax=={TESTED['jax']}'" in bad(elsewhere)[0].remedy


def test_libtpu_is_only_needed_where_there_are_chips() -> None:
    without = {"libtpu": None}
    assert ["libtpu"] == [one.name for one in bad(environment(versions=without))]
    assert [] == bad(
        environment([CPU], versions=without, chips=[], results={"step": {**STEP, "platform": "cpu"}})
    )


@pytest.mark.parametrize(
    ("name", "version", "state", "remedy"),
    [
        ("torch", "2.5.1", State.PROBLEM, "pip install torch==2.13.0"),
        ("torch", "2.13.0+cu128", State.OK, ""),
        ("libtpu", "0.0.42.3", State.WARNING, ""),
        ("torchvision", "0.28.1", State.WARNING, ""),
    ],
)
def test_versions_that_were_not_tested(name: str, version: str, state: State, remedy: str) -> None:
    found = [one for one in diagnose(environment(versions={name: version})) if one.name == name]
    assert (state, remedy) == (found[0].state, found[0].remedy)


def test_versions_that_do_not_fit_come_with_the_one_that_does() -> None:
    found = bad(environment(versions={"libtpu": "0.0.30", "torchvision": "0.20.1"}))
    assert {"pip install 'libtpu==0.0.42.*'", "pip install 'torchvision==0.28.*'"} == {
        one.remedy for one in found if one.state is State.PROBLEM
    }


@pytest.mark.parametrize("name", ["jax.py", "jax/__init__.py"])
def test_a_module_of_the_project_that_hides_a_package(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = environment()
    found.facts["packages"]["jax"]["origin"] = str(tmp_path / name)
    (problem,) = bad(found)
    assert f"`import jax` imports {tmp_path / name}, which hides the installed package" == problem.message
    found.facts["packages"]["jax"]["installed"][0]["folder"] = str(tmp_path)  # the project is jax itself
    assert [] == bad(found)


def test_a_package_in_two_versions_or_without_its_module() -> None:
    found = environment()
    found.facts["packages"]["torchax"]["installed"].append({"version": "0.0.9", "folder": "/other"})
    found.facts["packages"]["jax"]["origin"] = None
    assert ["installed more than once: ", "installed, but `import jax` does not find it"] == [
        one.message.partition("0.0.14")[0] for one in sorted(bad(found), key=lambda one: one.name == "jax")
    ]


def test_chips_that_jax_does_not_find() -> None:
    (problem,) = bad(environment([CPU], results={"step": {**STEP, "platform": "cpu"}}))
    assert "JAX finds 1 CPU; there is no" not in problem.message
    assert "JAX finds 1 CPU, but the host has TPU chips (/dev/accel0)" == problem.message


def test_a_gpu_that_jax_does_not_use_is_a_warning() -> None:
    found = environment([CPU], chips=[], nvidia=["/dev/nvidia0"])
    assert [("devices", State.WARNING)] == [(one.name, one.state) for one in bad(found)]


@pytest.mark.parametrize(
    ("variables", "state", "said"),
    [
        ({"JAX_PLATFORMS": "cuda,cpu"}, State.PROBLEM, "makes JAX use a GPU"),
        ({"JAX_PLATFORMS": "cpu"}, State.WARNING, "keeps JAX on the CPU"),
        (
            {"JAX_PLATFORM": "gpu"},
            State.WARNING,
            "JAX does not read `JAX_PLATFORM=gpu`; it reads JAX_PLATFORMS",
        ),
        ({"JAX_USE_GPU": "true"}, State.WARNING, "JAX does not read `JAX_USE_GPU=true`"),
        ({"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}, State.WARNING, "is for the memory of GPUs"),
        ({"XLA_FLAGS": "--xla_gpu_autotune_level=4"}, State.WARNING, "has flags for GPUs"),
        ({"JAX_ENABLE_X64": "1"}, State.WARNING, "compute float64 in software"),
    ],
)
def test_variables_that_matter(variables: dict[str, str], state: State, said: str) -> None:
    found = environment(variables={"JAX_COMPILATION_CACHE_DIR": "/cache", "TPU_NAME": "local", **variables})
    (check,) = bad(found)
    assert (state, True) == (check.state, said in check.message)
    assert check.remedy


def test_a_tpu_without_a_compilation_cache_is_a_warning() -> None:
    assert ["compilation cache"] == [one.name for one in bad(environment(variables={}))]


@pytest.mark.parametrize("changed", [{"loss": 2.3}, {"norm": 0.9}, {"learns": False}])
def test_a_step_with_other_results_than_torch_is_a_problem(changed: dict[str, Any]) -> None:
    (problem,) = bad(environment(results={"step": {**STEP, **changed}}))
    assert ("training step", State.PROBLEM) == (problem.name, problem.state)
    assert "but 2.083500 and 1.093500 in plain torch" in problem.message


@pytest.mark.parametrize("probe", ["torch", "torchvision", "jax", "torchax", "step"])
def test_a_question_that_fails_is_a_problem_with_its_error(probe: str) -> None:
    found = bad(environment(results={probe: {"error": "OSError: libtorch.so is missing"}}))
    assert any("OSError: libtorch.so is missing" in one.message for one in found)
    assert all(one.state is State.PROBLEM for one in found if "OSError" in one.message)
