"""Views and writes: after each step of a short program, all tensors are what they are in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import torch
from hypothesis import strategies
from torch.utils._python_dispatch import _disable_current_modes

from .comparison import assert_same

Function = Callable[[Any], Any]


def _always(_x: torch.Tensor) -> bool:
    return True


def _has_dims(x: torch.Tensor) -> bool:
    return x.ndim > 0


#: Views by name: the tensors that have one, and the view.
VIEWS: dict[str, tuple[Callable[[torch.Tensor], bool], Function]] = {
    "first": (_has_dims, lambda x: x[0]),
    "last of the last dimension": (_has_dims, lambda x: x[..., -1]),
    "slice": (_has_dims, lambda x: x[1:]),
    "slice with a step": (_has_dims, lambda x: x[..., ::2]),
    "two slices": (lambda x: x.ndim > 1, lambda x: x[:2, 1:]),
    "new dimension": (_always, lambda x: x[None]),
    "t": (lambda x: x.ndim <= 2, lambda x: x.t()),
    "transpose": (_has_dims, lambda x: x.transpose(0, -1)),
    "permute": (_has_dims, lambda x: x.permute(*range(1, x.ndim), 0)),
    "expand": (_always, lambda x: x.expand(2, *x.shape)),
    "view": (lambda x: x.is_contiguous(), lambda x: x.view(-1)),
    "view of halves": (
        lambda x: x.is_contiguous() and x.numel() % 2 == 0 < x.numel(),
        lambda x: x.view(2, -1),
    ),
    "reshape": (lambda x: x.is_contiguous(), lambda x: x.reshape(-1)),
    "unbind": (lambda x: x.ndim > 0 and len(x) > 0, lambda x: x.unbind(0)[-1]),
    "diagonal": (lambda x: x.ndim > 1, lambda x: x.diagonal()),
    "narrow": (lambda x: x.ndim > 0 and x.shape[-1] > 0, lambda x: x.narrow(-1, 0, 1)),
    "squeeze": (_always, lambda x: x.squeeze()),
    "unsqueeze": (_always, lambda x: x.unsqueeze(-1)),
    "real": (_always, lambda x: x.real),
    "detach": (_always, lambda x: x.detach()),
    "data": (_always, lambda x: x.data),
    "chunk": (_has_dims, lambda x: x.chunk(2, -1)[-1]),
    "unfold": (lambda x: x.ndim > 0 and x.shape[-1] > 1, lambda x: x.unfold(-1, 2, 1)),
    "movedim": (_has_dims, lambda x: x.movedim(0, -1)),
    "clone": (_always, lambda x: x.clone()),
}


def _is_written(x: torch.Tensor) -> bool:
    """Whether torch allows writes: not to views whose elements are at the same locations."""
    locations = torch.arange(x.untyped_storage().nbytes() // x.element_size())
    seen = locations.as_strided(x.shape, x.stride(), x.storage_offset())
    return seen.numel() > 0 and len(seen.unique()) == seen.numel()


def _has_items(x: torch.Tensor) -> bool:
    return _is_written(x) and x.ndim > 0


#: Writes to a tensor by name: the tensors that can be written to, and the write.
WRITES: dict[str, tuple[Callable[[torch.Tensor], bool], Function]] = {
    "add_": (_is_written, lambda x: x.add_(1.5)),
    "mul_": (_is_written, lambda x: x.mul_(2)),
    "fill_": (_is_written, lambda x: x.fill_(3)),
    "zero_": (_is_written, lambda x: x.zero_()),
    "copy_": (_has_items, lambda x: x.copy_(x.flip(0))),
    "copy_ of a number": (_is_written, lambda x: x.copy_(torch.tensor(5.0))),
    "all items": (_is_written, lambda x: x.__setitem__(..., 7.0)),
    "an item": (_has_items, lambda x: x.__setitem__(0, 4.0)),
    "items": (_has_items, lambda x: x.__setitem__((..., slice(1, None)), 2.0)),
    "items with a step": (_has_items, lambda x: x.__setitem__(slice(None, None, 2), -1.0)),
    "masked items": (_is_written, lambda x: x.__setitem__(x > 4, 0.5)),
    "items of itself": (_has_items, lambda x: x.__setitem__(0, x[-1].clone())),
    "relu_": (_is_written, lambda x: x.relu_()),
    "clamp_": (_is_written, lambda x: x.clamp_(0, 6)),
    "masked_fill_": (_is_written, lambda x: x.masked_fill_(x < 2, 8.0)),
    "sub_ of its mean": (_is_written, lambda x: x.sub_(x.mean())),
}
SHAPES = [(3, 4), (2, 3, 2), (4,)]
Step = tuple[str, int]
PROGRAMS = strategies.lists(
    strategies.tuples(strategies.sampled_from([*VIEWS, *WRITES]), strategies.integers(0, 3)),
    min_size=2,
    max_size=6,
)


def _allowed(shape: tuple[int, ...], steps: list[Step]) -> list[tuple[Function, int, bool]]:
    """The steps that torch allows: a function, the number of a tensor, and whether the result is a view."""
    tensors = [_made(shape)]
    made = []
    for name, number in steps:
        is_view = name in VIEWS
        condition, function = VIEWS[name] if is_view else WRITES[name]
        at = number % len(tensors)
        if condition(tensors[at]):
            result = function(tensors[at])
            tensors += [result] if is_view else []
            made.append((function, at, is_view))
    return made


def _made(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape).clone()


def _run(tensor: Any, steps: list[tuple[Function, int, bool]]) -> list[list[Any]]:
    """All tensors after each step."""
    tensors, seen = [tensor], []
    for function, at, is_view in steps:
        result = function(tensors[at])
        tensors += [result] if is_view else []
        seen.append([one.detach().cpu().clone() for one in tensors])
    return seen


@hypothesis.settings(max_examples=200)
@hypothesis.given(shape=strategies.sampled_from(SHAPES), steps=PROGRAMS)
def test_writes_are_seen_through_tensors_and_views(shape: tuple[int, ...], steps: list[Step]) -> None:
    with _disable_current_modes():
        allowed = _allowed(shape, steps)
        due = _run(_made(shape), allowed)
    assert_same(due, _run(_made(shape).to("jax"), allowed), str(steps))
