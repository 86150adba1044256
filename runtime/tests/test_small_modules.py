"""The smaller folders that fixes write: events and streams, a pickler, a mesh, and those for CUDA as well."""

from __future__ import annotations

import importlib
import importlib.util
import io
import pickle
import sys
from pathlib import Path
from typing import Any

import jax
import pytest
import torch
import torchax_compat
from torch import nn
from torchax.tensor import Environment
from torchax_compat.data import loader

COMPANIONS = Path(torchax_compat.__file__).parents[1]


def test_events_read_the_clock_behind_all_that_was_computed() -> None:
    event = importlib.import_module("torchax_events").Event

    start, end = event(enable_timing=True), event(enable_timing=True)
    with pytest.raises(RuntimeError, match="needs two recorded events"):
        start.elapsed_time(end)
    start.record()
    torch.ones(3, device="jax").sum()
    end.record()
    end.synchronize()
    end.wait()
    assert end.query()
    assert 0 < start.elapsed_time(end) < 60_000


def test_streams_compute_in_order() -> None:
    events = importlib.import_module("torchax_events")
    one = events.Stream()
    with torch.cuda.stream(one), events.stream(one), one as entered:
        x = torch.ones(2, device="jax") * 2
        x.record_stream(one)
        event = one.record_event()
    assert entered is one
    assert one.record_event(event) is event
    events.current_stream().wait_event(event)
    events.current_stream("jax").wait_stream(one)
    assert [2.0, 2.0] == x.tolist()
    with torch.cuda.stream(None):
        assert 0 <= event.elapsed_time(one.record_event())


@pytest.fixture
def plain_pickling(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without the larger folder, which teaches tensors of the device to be pickled."""
    from torchax.tensor import Tensor
    from torchax.view import View

    for kind in (Tensor, View):
        monkeypatch.setattr(kind, "__reduce_ex__", torch.Tensor.__reduce_ex__)


@pytest.mark.usefixtures("plain_pickling")
def test_the_pickler_writes_tensors_of_the_device_as_ones_of_the_host() -> None:
    torchax_pickle = importlib.import_module("torchax_pickle")

    net = nn.Linear(2, 1).to("jax")
    whole = {
        "net": net,
        "x": torch.ones(2, device="jax", requires_grad=True),
        "part": torch.arange(4.0).to("jax")[1:3],
    }
    file = io.BytesIO()
    torch.save(whole, file, pickle_module=torchax_pickle)
    file.seek(0)
    read = torch.load(file, map_location="cpu", weights_only=False)
    assert net.weight.tolist() == read["net"].weight.tolist()
    assert isinstance(read["net"].weight, nn.Parameter)
    assert (True, [1.0, 2.0]) == (read["x"].requires_grad, read["part"].tolist())
    file = io.BytesIO()
    torchax_pickle.dump(whole["part"], file)
    assert [1.0, 2.0] == pickle.loads(file.getvalue()).tolist()


def test_tensors_of_the_device_are_pickled_as_ones_of_the_host() -> None:
    net = nn.Linear(2, 1).to("jax")
    read = pickle.loads(
        pickle.dumps([net.weight, torch.arange(4.0).to("jax")[1:3], torch.ones(1).to("jax").bfloat16()])
    )
    assert {"cpu"} == {one.device.type for one in read}
    assert (net.weight.tolist(), [1.0, 2.0], [1.0]) == tuple(one.tolist() for one in read)
    assert (nn.Parameter, True) == (type(read[0]), read[0].requires_grad)


@pytest.fixture
def spread(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(Environment, "t2j_copy", Environment.t2j_copy)
    monkeypatch.setattr(nn.Module, "_apply", nn.Module._apply)
    torchax_mesh = importlib.import_module("torchax_mesh")

    torchax_mesh.spread()
    return torchax_mesh


def test_what_enters_torchax_is_laid_over_a_mesh(spread: Any) -> None:
    import torchax

    rows, whole = torchax.default_env().t2j_copy([torch.ones(2 * spread.mesh.size, 3), torch.tensor(1.0)])
    assert spread._ROWS == rows.sharding
    assert spread._WHOLE == whole.sharding
    assert ((2 * spread.mesh.size, 3), ()) == (rows.shape, whole.shape)


def test_batches_are_sharded_over_a_mesh_beside_the_runtime(spread: Any) -> None:
    assert spread._ROWS == torch.ones(2 * spread.mesh.size, 3).to("jax").jax().sharding


def test_batches_are_sharded_if_the_runtime_is_imported_after_the_mesh_is_used(
    spread: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("j2t_copy", "_torch_Tensor_to"):
        monkeypatch.setattr(Environment, name, getattr(Environment, name))
    file = COMPANIONS / "torchax_compat" / "tensors" / "copies.py"
    spec = importlib.util.spec_from_file_location("torchax_compat.tensors.imported_later", file)
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert spread._ROWS == torch.ones(2 * spread.mesh.size, 3).to("jax").jax().sharding


def test_modules_are_moved_by_the_runtime_if_the_mesh_was_imported_before(spread: Any) -> None:
    from torchax_compat.tensor import module_to

    assert module_to._moved is spread._apply_to_whole.apply
    net = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters())
    net.to("jax")
    assert list(net.parameters()) == optimizer.param_groups[0]["params"]
    assert {spread._WHOLE} == {p.jax().sharding for p in net.parameters()}


def test_devices_hold_all_of_a_module(spread: Any) -> None:
    net = nn.Linear(3, spread.mesh.size)
    weight = net.weight.tolist()
    net.to("jax")
    assert weight == net.weight.tolist()
    assert 0 == spread._modules_moving
    spread._modules_moving = 1
    try:
        assert spread._WHOLE == spread._laid(jax.numpy.ones((spread.mesh.size, 2))).sharding
    finally:
        spread._modules_moving = 0


def _loaded(folder: str, name: str) -> Any:
    """A folder for CUDA as well, with the files of the one for torchax alone beside it."""
    spec = importlib.util.spec_from_file_location(
        name,
        COMPANIONS / "two_way" / folder / "__init__.py",
        submodule_search_locations=[str(COMPANIONS / folder)],
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("is_there", [True, False])
def test_folders_for_cuda_as_well_take_what_there_is(is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torchax_events = importlib.import_module("torchax_events")
    torchax_pickle = importlib.import_module("torchax_pickle")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: is_there)
    events, pickling = (
        _loaded("torchax_events", "torchax_events"),
        _loaded("torchax_pickle", "torchax_pickle"),
    )
    assert events.Event is (torch.cuda.Event if is_there else torchax_events.Event)
    assert pickling.dump is (pickle.dump if is_there else torchax_pickle.dump)
    training = _loaded("torchax_compat", "torchax_compat")
    if is_there:
        assert training.compiled(1) == training.recorded(1) == training.differentiable(1) == 1
        assert training.differentiable(compiled=False) is training.differentiable
    else:
        assert training.differentiable is torchax_compat.differentiable


def test_a_second_copy_of_the_folder_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("package.torchax_compat", "another.torchax_compat"):
        monkeypatch.setitem(sys.modules, name, sys.modules["torchax_compat"])
    _loaded("torchax_compat", "package.torchax_compat")
    assert sys.modules["package.torchax_compat"] is torchax_compat


def test_files_of_a_second_copy_are_those_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    package = type(sys)("package")
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "package", package)
    monkeypatch.setitem(sys.modules, "package.torchax_compat", torchax_compat)
    name = "package.torchax_compat.host.loading"
    try:
        spec = loader.__spec__
        assert importlib.import_module(name) is loader
        assert loader.__spec__ is spec
    finally:
        for one in [one for one in sys.modules if one.startswith("package.torchax_compat.")]:
            del sys.modules[one]
    assert importlib.util.find_spec("torchax_compat.host.loading") is spec
