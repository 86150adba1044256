"""Files of torchax tensors, which are written as CPU tensors."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torchax_compat
from torch import nn
from torchax.tensor import Tensor
from torchax.view import View
from torchax_compat.data import cpu_pickle


def _whole() -> dict[str, Any]:
    return {
        "net": nn.Linear(2, 1).to("jax"),
        "x": torch.ones(2, device="jax", requires_grad=True),
        "part": torch.arange(4.0).to("jax")[1:3],
    }


def _assert_on_host(whole: dict[str, Any], read: dict[str, Any]) -> None:
    weight = read["net"].weight
    assert whole["net"].weight.tolist() == weight.tolist()
    assert isinstance(weight, nn.Parameter)
    assert (True, [1.0, 2.0]) == (read["x"].requires_grad, read["part"].tolist())
    assert {"cpu"} == {one.device.type for one in (weight, read["x"], read["part"])}


@pytest.fixture
def plain_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchax tensors that cannot be pickled by themselves, as where the runtime is not enabled."""
    for kind in (Tensor, View):
        monkeypatch.setattr(kind, "__reduce_ex__", torch.Tensor.__reduce_ex__)


@pytest.mark.usefixtures("plain_tensors")
def test_module_saved_with_the_pickle_module_is_loaded_on_the_host() -> None:
    whole, file = _whole(), io.BytesIO()
    torch.save(whole, file, pickle_module=cpu_pickle)
    file.seek(0)
    _assert_on_host(whole, torch.load(file, map_location="cpu", weights_only=False))


@pytest.mark.usefixtures("plain_tensors")
def test_dump_writes_views_as_cpu_tensors() -> None:
    file = io.BytesIO()
    torchax_compat.data.cpu_pickle.dump(torch.arange(4.0).to("jax")[1:3], file, protocol=4)
    assert [1.0, 2.0] == pickle.loads(file.getvalue()).tolist()


@pytest.mark.parametrize("pickle_module", [pickle, cpu_pickle])
def test_module_is_saved_by_any_pickle_module_where_the_runtime_is_enabled(pickle_module: Any) -> None:
    whole, file = _whole(), io.BytesIO()
    torch.save(whole, file, pickle_module=pickle_module)
    file.seek(0)
    _assert_on_host(whole, torch.load(file, map_location="cpu", weights_only=False))


def test_pickled_tensors_have_their_dtype_and_type() -> None:
    net = nn.Linear(2, 1).to("jax")
    read = pickle.loads(pickle.dumps([net.weight, torch.ones(1).to("jax").bfloat16()]))
    assert (nn.Parameter, True, net.weight.tolist()) == (
        type(read[0]),
        read[0].requires_grad,
        read[0].tolist(),
    )
    assert (torch.bfloat16, [1.0]) == (read[1].dtype, read[1].tolist())


def test_copy_of_a_tensor_stays_on_the_device() -> None:
    x = torch.arange(4.0).to("jax")
    assert ("jax", [0.0, 1.0, 2.0, 3.0]) == (copy.copy(x).device.type, copy.copy(x).tolist())
    assert ("jax", [1.0, 2.0]) == (copy.copy(x[1:3]).device.type, copy.copy(x[1:3]).tolist())


def test_pickle_module_is_that_of_python_where_torchax_is_not_imported() -> None:
    code = """
import io, pickle, sys
import torch
from torchax_compat.data import cpu_pickle
whole = [1, {"x": "y"}, torch.ones(2), torch.nn.Linear(2, 1)]
file = io.BytesIO()
cpu_pickle.dump(whole, file)
assert file.getvalue() == pickle.dumps(whole)
torch.save(whole, file := io.BytesIO(), pickle_module=cpu_pickle)
torch.save(whole, other := io.BytesIO())
assert file.getvalue() == other.getvalue()
assert "torchax" not in sys.modules
"""
    environment = dict(os.environ, PYTHONPATH=str(Path(torchax_compat.__file__).parents[1]))
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
