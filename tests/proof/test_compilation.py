"""`tpulint verify --tpu`: what the TPU's compiler says of fixed modules and programs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.proof.conftest import Verify
from tpulint.verify import missing_packages

pytestmark = pytest.mark.skipif(
    bool(missing_packages()) or importlib.util.find_spec("libtpu") is None,
    reason="tpulint[verify,tpu] is not installed",
)

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=1024, depth=1):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = torch.relu(block(x))
        return x


class Eigenvalues(nn.Module):
    def forward(self, x):
        y = x @ x.T
        return torch.linalg.eigvals(y)


class Huge(nn.Module):
    def forward(self, x):
        return (x.sort().values[:, None] * x).sort(0).values.sort(1).values.sum()
"""


@pytest.fixture(autouse=True)
def model(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)


def test_memory_and_cost_are_those_of_the_shapes(verify: Verify) -> None:
    code, report, _ = verify(
        "--no-trace", "--tpu", "v5e", "--tpu", "v6e:2x4", "model.py:Net", "--input", "randn(8, 1024)"
    )
    first, second = report["verifications"][0]["compiled"]
    assert (0, "compiles", "v5e:2x2", "TPU v5 lite") == (
        code, first["state"], first["topology"], first["chip"],
    )  # fmt: skip
    weights, batch = 1024 * 1025 * 4, 8 * 1024 * 4
    assert weights + batch <= first["memory"]["arguments"] <= weights + batch + 4096
    assert pytest.approx(2 * 8 * 1024 * 1024, rel=0.01) == first["flops"]
    # What the compiler itself says to be available: 16 GiB and 32 GiB without what it keeps for itself.
    assert (15.75 * 2**30, 31.25 * 2**30) == (first["hbm"], second["hbm"])
    assert first["fits"]
    assert second["fits"]


def test_the_largest_batch_fits_and_a_larger_one_does_not(verify: Verify) -> None:
    def compiled(batch: int) -> dict[str, object]:
        options = ["--compile-only", "--tpu", "v5e", *(["--largest-batch"] if batch == 2 else [])]
        target = ["cases.py:verify_shapes"]
        Path("cases.py").write_text(
            "import torch\nfrom model import Net\n\n\ndef verify_shapes():\n"
            f"    return Net(width=8192), (torch.empty({batch}, 8192, device='meta'),)\n"
        )
        found = verify(*options, *target)[1]["verifications"][0]["compiled"][0]
        assert isinstance(found, dict)
        return found

    largest = compiled(2)["largest_batch"]
    assert isinstance(largest, int)
    assert largest > 100_000
    assert compiled(int(largest * 1.1))["fits"] is False


def test_a_mesh_splits_the_weights_and_communicates(verify: Verify) -> None:
    _, report, _ = verify(
        "--no-trace", "--tpu", "v5e", "--mesh", "data=1,model=4", "--shard", r"blocks.0.weight=model,-",
        "--shard", r"blocks.1.weight=-,model", "model.py:Net(depth=2)", "--input", "randn(8, 1024)",
    )  # fmt: skip
    (found,) = report["verifications"][0]["compiled"]
    assert 4 == found["chips"]
    assert found["memory"]["arguments"] < 2 * 1024 * 1024 * 4 / 4 + 100_000
    assert ["all-reduce"] == [one["operation"] for one in found["collectives"]]


def test_a_mesh_is_used_with_the_rules_of_the_settings(verify: Verify, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.tpulint.sharding]\n\'.*blocks.0.weight\' = ["model", ""]\n'
    )
    options = ["--compile-only", "--tpu", "v5e", "--mesh", "data=1,model=4"]
    code, report, _ = verify(*options, "model.py:Net", "--input", "randn(8, 1024)")
    (found,) = report["verifications"][0]["compiled"]
    assert (0, 4) == (code, found["chips"])
    assert found["memory"]["arguments"] < 1024 * 1024 * 4 / 4 + 100_000


def test_errors_of_the_compiler_are_at_the_users_line(verify: Verify) -> None:
    code, report, _ = verify("--no-trace", "--tpu", "v5e", "model.py:Eigenvalues", "--input", "randn(4, 4)")
    (found,) = report["verifications"][0]["compiled"]
    (row,) = [row for row, line in enumerate(MODEL.splitlines(), 1) if "eigvals" in line]
    assert (1, "fails", [("model.py", row)]) == (
        code, found["state"], [(frame["path"], frame["line"]) for frame in found["frames"]],
    )  # fmt: skip
    assert "'eig' not found for platform tpu" in found["error"]


def test_the_step_of_a_program_is_compiled_whole(verify: Verify, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n\n"
        "data = TensorDataset(torch.randn(50, 64), torch.randn(50, 64))\n"
        'model = torch.nn.Linear(64, 64).to("cuda")\n'
        "optimizer = torch.optim.Adam(model.parameters())\n"
        "for epoch in range(5):\n"
        "    for x, y in DataLoader(data, batch_size=16):\n"
        "        x, y = x.cuda(), y.cuda()\n"
        "        loss = torch.nn.functional.mse_loss(model(x), y)\n"
        "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n"
    )
    code, report, _ = verify("--tpu", "v5e", "train.py")
    (found,) = report["verifications"]
    (compiled,) = found["compiled"]
    assert (0, "same", "compiles", "a training step of 1 compiled function") == (
        code, found["state"], compiled["state"], compiled["what"],
    )  # fmt: skip
    # Weights and two moments of Adam.
    assert compiled["memory"]["arguments"] > 3 * 65 * 64 * 4
    shapes = found["trace"]["shapes"]
    # The last batch of each epoch is smaller.
    assert (2, 4, True) == (shapes["count"], shapes["batches"], shapes["is_all"])


def test_an_unknown_topology_is_reported_before_any_code_runs(verify: Verify, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "train.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    code, report, _ = verify("--tpu", "v99", "train.py")
    assert (2, {}, False) == (code, report, ran.exists())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tpu", "v99"), "--tpu v99: libtpu does not know this topology"),
        (("--tpu", "v5e:3x5"), "--tpu v5e:3x5: libtpu does not know this topology"),
        (("--tpu", "v5e", "--mesh", "data=9"), "--mesh has 9 chips, and v5e:2x2 has 4"),
        (("--tpu", "v5e", "--mesh", "data=0"), "the size of each axis is at least 1"),
        (("--tpu", "v5e", "--mesh", "data"), "`data` is not a mesh such as data=2,model=4"),
        (("--tpu", "v5e", "--mesh", "data=2", "--shard", "w=model"), "`w=model` is not PATTERN=AXIS"),
    ],
)
def test_bad_topologies_and_meshes_give_one_line_and_exit_2(
    verify: Verify, arguments: tuple[str, ...], message: str
) -> None:
    code, report, err = verify("--no-trace", *arguments, "model.py:Net(width=4)", "--input", "randn(2, 4)")
    assert (2, {}) == (code, report)
    assert message in err.splitlines()[-1]


def test_attention_in_float16_takes_more_cycles_than_in_bfloat16(verify: Verify, tmp_path: Path) -> None:
    (tmp_path / "attention.py").write_text(
        "import torch\n\n\n"
        "class Attention(torch.nn.Module):\n"
        "    def __init__(self, dtype):\n"
        "        super().__init__()\n"
        "        self.dtype = getattr(torch, dtype)\n\n"
        "    def forward(self, x):\n"
        "        x = x.to(self.dtype)\n"
        "        return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)\n"
    )
    targets = [f"attention.py:Attention('{dtype}')" for dtype in ("float16", "bfloat16")]
    _, report, _ = verify("--no-trace", "--tpu", "v6e", *targets, "--input", "randn(2, 8, 512, 64)")
    float16, bfloat16 = (one["compiled"][0]["cycles"] for one in report["verifications"])
    assert float16 > 1.3 * bfloat16
