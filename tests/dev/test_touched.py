"""Which unit tests `make quick` runs for a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpulint.dev.touched import runs

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([], []),
        (["README.md", "docs/limits.md"], []),
        (["tests/settings/test_select.py"], [["tests/settings/test_select.py"]]),
        (["tests/settings/test_that_was_removed.py"], []),
        (["tests/cli/conftest.py"], [["tests/cli"]]),
        (["tpulint/settings.py"], [["tests/settings/test_settings.py"]]),
        (["tpulint/engine/cache.py"], [["tests/engine/test_cache.py"]]),
        (["tpulint/engine/desk.py"], [["tests/engine"]]),
        (["tpulint/model/names/scopes.py", "tpulint/model/belief.py"], [["tests/model"]]),
        (["tpulint/evidence/lock.py"], [["tests/evidence/test_lock.py"]]),
        (["rules/tpulint_rules/placement/cuda_method.py"], [["tests/rules", "-k", "cuda_method"]]),
        (["fixtures/cuda_method/example/run.py"], [["tests/rules", "-k", "cuda_method"]]),
        (
            ["runtime/src/torchax_compat/tensor/assignment.py"],
            [["runtime/tests/tensor/test_assignment.py"]],
        ),
        (["runtime/src/torchax_compat/tensor/shared_data.py"], [["runtime/tests/tensor"]]),
        (["runtime/src/torchax_compat/version.py"], [["runtime/tests/autograd"]]),
        (["runtime/tests/conftest.py"], [["runtime/tests"]]),
        (["tpulint/finding.py"], [["tests/engine", "tests/model"]]),
        (["rules/tpulint_rules/placement/__init__.py"], []),
    ],
)
def test_selected_tests_mirror_the_changed_files(files: list[str], expected: list[list[str]]) -> None:
    assert [sorted(run) if "-k" not in run else run for run in runs(files, ROOT)] == expected


def test_test_folders_runtime_and_fixtures_are_run_separately() -> None:
    files = ["tpulint/cli.py", "fixtures/cuda_method/clean/run.py", "fixtures/pinned_memory/clean/run.py"]
    files.append("runtime/tests/conftest.py")
    assert runs(files, ROOT) == [
        ["tests/cli"],
        ["runtime/tests"],
        ["tests/rules", "-k", "cuda_method or pinned_memory"],
    ]
