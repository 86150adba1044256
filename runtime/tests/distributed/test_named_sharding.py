"""Parameters that are sharded by rules about their names: values of one device, and parts on each device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torchax_compat

_PROGRAM = """
import sys, torch, torchax_compat
from torch import nn
torchax_compat.enable()
{start}
RULES = {{
    r".*\\.(q|k|v|up)\\.weight": ("model", None),
    r".*\\.up\\.bias": ("model",),
    r".*\\.(o|down)\\.weight": (None, "model"),
    r"odd\\.weight": ("model", None),
}}
if len(sys.argv) > 1:
    torchax_compat.distributed.shard_by_name(RULES, devices=int(sys.argv[1]))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        x = x + self.o(nn.functional.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x)))
        return x + self.down(torch.tanh(self.up(x)))

@torchax_compat.differentiable
def compute_loss(model, x):
    return model(x).square().mean()

torch.manual_seed(0)
model = nn.Sequential()
model.add_module("block", Block())
model.add_module("odd", nn.Linear(16, 7))
x = torch.randn(8, 4, 16).to("jax")
model = model.to("jax")
optimizer = torchax_compat.compile_optimizer(torch.optim.AdamW(model.parameters(), lr=0.01))
for step in range(7):
    loss = compute_loss(model, x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{{loss.item():.5f}}")
print(f"{{sum(p.square().sum().item() for p in model.parameters()):.3f}}")
model.load_state_dict({{name: value.cpu() for name, value in model.state_dict().items()}})
compute_loss(model, x)
block = model.block
for tensor in (block.q.weight, block.up.bias, block.down.weight, block.o.weight, model.odd.weight, x):
    print(tuple(tensor.jax().addressable_shards[0].data.shape), file=sys.stderr)
"""
_BATCHES = "torchax_compat.distributed.shard_batches()"


def _run(*arguments: str, devices: int, start: str = "") -> tuple[list[str], list[str]]:
    flags = f"--xla_force_host_platform_device_count={devices}"
    source = str(Path(torchax_compat.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(start=start), *arguments],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr.splitlines()


def _shapes(errors: list[str]) -> list[str]:
    return [line for line in errors if line.startswith("(")]


@pytest.mark.parametrize(
    ("devices", "of_model", "start"), [(2, 2, ""), (4, 4, ""), (4, 2, _BATCHES), (8, 2, _BATCHES)]
)
def test_sharded_parameters_give_the_values_of_one_device(devices: int, of_model: int, start: str) -> None:
    expected, _ = _run(devices=1)
    actual, errors = _run(str(of_model), devices=devices, start=start)
    assert len(expected) == 8
    assert list(map(float, expected)) == pytest.approx(list(map(float, actual)), rel=1e-4, abs=1e-4)
    part, samples = 16 // of_model, 8 * of_model // devices
    expected_shapes = [(part, 16), (2 * part,), (16, 2 * part), (16, part), (7, 16), (samples, 4, 16)]
    assert list(map(str, expected_shapes)) == _shapes(errors)


def test_rule_that_does_not_fit_and_mesh_are_reported() -> None:
    _, errors = _run("2", devices=4, start=_BATCHES)
    mesh = (
        "torchax_compat: 4 sharding rules: mesh (data=2, model=2), because `shard_by_name` was called; "
        "parameters that no rule names are replicated"
    )
    assert mesh in errors
    wanted = "`odd.weight` of shape (7, 16) is replicated: its sharding rule ('model', None) does not fit on"
    assert any(wanted in line for line in errors)


def test_unknown_dimension_is_an_error() -> None:
    torchax_compat.enable()
    with pytest.raises(ValueError, match="'tensor'"):
        torchax_compat.distributed.shard_by_name({r".*\.weight": ("tensor", None)})
