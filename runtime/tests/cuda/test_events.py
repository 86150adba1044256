"""Events and streams: of torchax where the runtime is enabled, and of CUDA otherwise."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torchax_compat
from torchax_compat.cuda import events, streams


def test_elapsed_time_is_between_two_recorded_events() -> None:
    start, end = torchax_compat.cuda.Event(enable_timing=True), torchax_compat.cuda.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="needs two recorded events"):
        start.elapsed_time(end)
    start.record()
    torch.ones(3, device="jax").sum()
    end.record()
    end.synchronize()
    end.wait()
    assert end.query()
    assert 0 < start.elapsed_time(end) < 60_000


def test_streams_run_operations_in_order() -> None:
    one = torchax_compat.cuda.Stream(priority=-1)
    with torch.cuda.stream(one), torchax_compat.cuda.stream(one), one as entered:
        x = torch.ones(2, device="jax") * 2
        x.record_stream(one)
        event = one.record_event()
    assert entered is one
    assert one.record_event(event) is event
    torchax_compat.cuda.current_stream().wait_event(event)
    torchax_compat.cuda.current_stream("jax").wait_stream(one)
    assert [2.0, 2.0] == x.tolist()
    with torch.cuda.stream(None):
        assert 0 <= event.elapsed_time(one.record_event())


def test_they_are_those_of_cuda_where_the_runtime_is_not_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    def returned(name: str) -> Any:
        return lambda *args, **kwargs: (name, args, kwargs)

    for module in (events, streams):
        monkeypatch.setattr(module, "is_enabled", lambda: False)
    for name in ("Event", "Stream", "current_stream", "stream"):
        monkeypatch.setattr(torch.cuda, name, returned(name))
    cuda = torchax_compat.cuda
    assert ("Event", (), {"enable_timing": True}) == cuda.Event(enable_timing=True)
    assert ("Stream", (0,), {"priority": -1}) == cuda.Stream(0, priority=-1)
    assert ("current_stream", (None,), {}) == cuda.current_stream()
    assert ("stream", (1,), {}) == cuda.stream(1)
