"""Threads that a program starts compute on the device."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torchax_compat.autograd.differentiable import DifferentiableFunction
from torchax_compat.jit import threads


def test_threads_compute_on_the_device() -> None:
    net = nn.Linear(3, 2).to("jax")
    x = torch.ones(4, 3)
    with ThreadPoolExecutor(2) as pool:
        moved = list(pool.map(lambda row: x[row].to("jax") * 2, range(3)))
        answers = list(pool.map(lambda row: net(row).argmax().item(), moved))
    assert [[2.0] * 3] * 3 == [one.tolist() for one in moved]
    assert [net(moved[0]).argmax().item()] * 3 == answers


def test_threads_without_torchax_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "function_modes", list)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(torch.ones(1)))
    thread.start()
    thread.join()
    assert "run" not in vars(thread)
    assert [1.0] == found[0].tolist()


def test_calls_are_made_in_turn_once_a_thread_was_started_and_until_the_runtime_is_disabled() -> None:
    threads._stop_turns()
    plain = nn.Module.__call__, DifferentiableFunction.__call__
    for _ in range(2):
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
    assert plain == (nn.Module.__call__.plain, DifferentiableFunction.__call__.plain)
    threads._stop_turns()
    assert plain == (nn.Module.__call__, DifferentiableFunction.__call__)
