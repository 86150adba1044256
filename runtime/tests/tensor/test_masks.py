"""Masks pick elements in compiled functions, too, and parts of what these give lead to gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torchax_compat import differentiable

MASKED: dict[str, Callable[[Any, Any], Any]] = {
    "picked": lambda x, m: x[m].square().mean(),
    "picked beside a slice": lambda x, m: x[m, 1:].square().mean(),
    "masked_select": lambda x, m: torch.masked_select(x, m[:, None]).square().mean(),
    "nonzero": lambda x, m: x[m.nonzero().squeeze(1)].square().mean(),
    "nonzero as a tuple": lambda x, m: x[m.nonzero(as_tuple=True)[0]].square().mean(),
    "set": lambda x, m: (y := x * 1, y.__setitem__(m, 2.0))[0].square().mean(),
    "set to elements": lambda x, m: (y := x * 1, y.__setitem__(m, x[m] * 3))[0].square().mean(),
    "counted": lambda x, m: x.sum() * m.sum(),
}


@pytest.mark.parametrize("name", MASKED)
def test_masks_in_compiled_functions(name: str) -> None:
    function = MASKED[name]
    compiled = differentiable(lambda x, m: function(x, m))
    for mask in ([True, False, True, True], [False, True, True, True]):
        m, x = torch.tensor(mask), torch.arange(12.0).reshape(4, 3)
        host, there = x.clone().requires_grad_(), x.to("jax").requires_grad_()
        due, got = function(host, m), compiled(there, m.to("jax"))
        due.backward()
        got.backward()
        assert torch.allclose(due, got.cpu(), rtol=1e-5)
        assert torch.allclose(host.grad, there.grad.cpu(), rtol=1e-5)
    assert compiled.compiled_function.is_compiled


def test_masks_of_tensors_without_dimensions() -> None:
    x = torch.tensor(3.0, device="jax")
    assert [[]] == x.nonzero().tolist()
    assert [3.0] == x[x > 2].tolist()
    assert [3.0] == torch.masked_select(x, x > 2).tolist()


PARTS: dict[str, Callable[[Any], Any]] = {
    "one": lambda y: y[0],
    "last": lambda y: y[-1].sum(),
    "slice": lambda y: y[1:].sum(),
    "column": lambda y: y[:, 1].sum() if y.ndim > 1 else y[1],
    "places": lambda y: y[torch.tensor([0, 2, 0], device=y.device)].sum(),
    "list": lambda y: y[[0, 1]].sum(),
    "mask": lambda y: y[y > 4].sum(),
    "everything": lambda y: y[...].sum() + y[None].sum(),
}


@pytest.mark.parametrize("name", PARTS)
def test_gradients_go_through_parts_of_what_a_compiled_function_gives(name: str) -> None:
    compiled = differentiable(lambda x: x * x)
    host = torch.arange(4.0).requires_grad_()
    there = torch.arange(4.0).to("jax").requires_grad_()
    due = PARTS[name](host * host)
    got = PARTS[name](compiled(there)) * 1
    assert pytest.approx(due.item()) == got.item()
    (gradient,) = torch.autograd.grad(due, host)
    if got.requires_grad:
        (found,) = torch.autograd.grad(got, there)
        assert gradient.tolist() == found.tolist()


def test_parts_without_gradients_are_views() -> None:
    x = torch.arange(4.0).to("jax").requires_grad_()
    with torch.no_grad():
        x[0].fill_(9)
    assert 9 == x[0].item()
