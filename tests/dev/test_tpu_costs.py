"""The part of docs/speed.md about compilation for TPUs: its table, and the capture of compiled functions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tpulint.dev import render_docs, tpu_costs

ROOT = Path(__file__).parents[2]
PROGRAM = """
import jax, jax.numpy as jnp
step = jax.jit(lambda w, x: (w - x @ x.T @ w, (w * w).sum()), donate_argnums=0)
norm = jax.jit(lambda w: jnp.sqrt((w * w).sum()))
weight = jnp.ones((256, 128))
for number in range(3):
    weight, loss = step(weight, jnp.ones((256, 64)))
    if number < 2:
        norm(weight), norm(weight)
    print(f"step {number} loss {loss.item()}")
"""


def costs(**changes: float) -> dict[str, Any]:
    one = {"functions": 1, "memory": 2e6, "bytes_accessed": 3e9, "flops": 4e12, "optimal_seconds": 5e-3}
    return {name: {**one, "cycles": 6_000_000, **changes} for name in tpu_costs.TOPOLOGIES}


def rendered(root: Path, page: str, **changes: float) -> list[str]:
    """The lines of a page with the costs of one program, whose fixed version has other costs."""
    entry = {"program": "GPT", "sizes": {"BATCH": 2}, "by hand": costs(), "fixed": costs(**changes)}
    data = {"versions": {"jax": "0.1", "libtpu": "0.2"}, "programs": [entry]}
    (root / "docs/data").mkdir(parents=True)
    (root / tpu_costs.DATA).write_text(json.dumps(data), encoding="utf-8")
    (root / tpu_costs.PAGE).write_text(page, encoding="utf-8")
    return tpu_costs.render(root).splitlines()


def test_table_has_both_versions_and_their_ratios_for_each_topology(tmp_path: Path) -> None:
    page = f"before\n{tpu_costs.BEGIN}old\n{tpu_costs.END}after\n"
    lines = rendered(tmp_path, page, functions=6, memory=5e6)
    assert ["before", tpu_costs.BEGIN.strip()] == lines[:2]
    assert [tpu_costs.END.strip(), "after"] == lines[-2:]
    assert "The steps were compiled with jax 0.1, libtpu 0.2." in lines
    assert "old" not in lines
    name = "| GPT, `BATCH=2` | v5e:2x4"
    assert [line for line in lines if line.startswith(name)] == [
        f"{name} | by hand | 1 | 2 | 3.0 | 4,000 | 5.0 | 6.0 |",
        f"{name} | fixed | 6 | 5 | 3.0 | 4,000 | 5.0 | 6.0 |",
        f"{name} | fixed / by hand | 6.00 | 2.50 | 1.00 | 1.00 | 1.00 | 1.00 |",
    ]


def test_page_without_a_part_for_the_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no part between"):
        rendered(tmp_path, "before\n")


def test_page_is_generated_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ROOT / tpu_costs.PAGE not in render_docs.stale(ROOT)
    monkeypatch.setattr(tpu_costs, "render", lambda _: "another page")
    assert ROOT / tpu_costs.PAGE in render_docs.stale(ROOT)


@pytest.mark.slow
def test_calls_of_the_last_step_are_compiled_for_tpu_without_being_computed(tmp_path: Path) -> None:
    pytest.importorskip("libtpu")
    script, target = tmp_path / "train.py", tmp_path / "costs.json"
    script.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "tpulint.dev.step_costs", str(target), str(script), "--", "v5e:2x4"]
    subprocess.run(command, env=tpu_costs.environment({}), check=True)
    (found,) = json.loads(target.read_text("utf-8")).values()
    assert found["functions"] == 1
    assert found["flops"] >= 2 * 2 * 256 * 256 * 64
    # The weight is donated, so that it is in memory once.
    assert 4 * 256 * (128 + 64) <= found["memory"] <= 4 * 256 * (128 + 64 + 256 + 128)
    assert found["cycles"] > 0
