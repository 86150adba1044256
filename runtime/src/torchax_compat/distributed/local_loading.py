"""`DataLoader` with a `DistributedSampler`: the batches of the ranks of this process, as local tensors."""

from __future__ import annotations

import copy
import warnings
from collections import UserDict
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .. import ranks
from ..ranks import local_tensor


def is_distributed(loader: Any) -> bool:
    """Whether the sampler of a loader gives each rank its share."""
    return ranks.are_on() and _sampler(loader) is not None


def batches(loader: Any, iterate: Callable[[Any], Iterator[Any]]) -> Iterator[Any]:
    """The batches of all ranks of this process.

    Args:
        loader: a loader whose sampler has a share for each rank.
        iterate: returns an iterator over the batches of a loader of one rank.
    """
    _check(_sampler(loader))
    loaders = [_of_rank(loader, rank) for rank in ranks.own()]
    state = torch.get_rng_state()
    iterators = []
    for one in loaders:  # the seed of an iterator is the same on all ranks
        torch.set_rng_state(state)
        iterators.append(iterate(one))
    return map(_merged, zip(*iterators, strict=True))


#: The attributes of samplers for the number of ranks and for a rank: those of torch, and of accelerate.
_OF_RANKS = (("num_replicas", "rank"), ("num_processes", "process_index"))


def _sampler(loader: Any) -> Any:
    """The sampler of a loader that has a share for each rank, or None."""
    inner = getattr(loader.batch_sampler, "sampler", None)
    candidates = (loader.sampler, loader.batch_sampler, inner)
    return next((one for one in candidates if _rank_of(one) is not None), None)


def _rank_of(sampler: Any) -> str | None:
    """The name of the attribute of a sampler that has the first rank of this process, among all ranks."""
    for number, rank in _OF_RANKS:
        if getattr(sampler, number, None) == ranks.world() and getattr(sampler, rank, None) == ranks.first():
            return rank
    return None


def _check(sampler: Any) -> None:
    """Warn if a sampler of the program ignores the rank that is set on a copy of it."""
    is_own = isinstance(sampler, torch.utils.data.DistributedSampler)
    if is_own and type(sampler).__iter__ is torch.utils.data.DistributedSampler.__iter__:
        return
    if ranks.count() == 1 or _rank_of(sampler) != _OF_RANKS[0][1]:
        return
    first, second = (list(_with_rank(sampler, rank)) for rank in ranks.own()[:2])
    if first == second and len(first) > 1:
        warnings.warn(
            f"`{type(sampler).__name__}` gives all ranks the same samples: it does not read its attribute "
            f"`{_rank_of(sampler)}` when it is iterated over; each device computes the same batch",
            stacklevel=4,
        )


def _with_rank(sampler: Any, rank: int) -> Any:
    made = copy.copy(sampler)
    name = _rank_of(sampler)
    assert name is not None
    setattr(made, name, rank)
    return made


def _of_rank(loader: Any, rank: int) -> Any:
    """A loader with the samples of one rank."""
    made = copy.copy(loader)
    sampler = _sampler(loader)
    of_rank = _with_rank(sampler, rank)
    held = vars(made)
    held["_iterator"] = None
    for name in ("sampler", "batch_sampler"):
        if held[name] is sampler:
            held[name] = of_rank
    inner = held["batch_sampler"]
    if getattr(inner, "sampler", None) is sampler:
        held["batch_sampler"] = copy.copy(inner)
        held["batch_sampler"].sampler = of_rank
    if rank != ranks.first():
        _separate(made, {})
    return made


def _separate(one: Any, known: dict[int, Any]) -> None:
    """Give a loader or sampler generators of its own, which draw what those of the first rank draw."""
    held = vars(one)
    for name in ("sampler", "batch_sampler", "generator"):
        inner = held.get(name)
        if inner is not None and id(inner) not in known:
            known[id(inner)] = _clone(inner) if name == "generator" else copy.copy(inner)
            if name != "generator" and hasattr(inner, "__dict__"):
                _separate(known[id(inner)], known)
        if inner is not None:
            held[name] = known[id(inner)]


def _clone(generator: Any) -> Any:
    made = torch.Generator(generator.device)
    made.set_state(generator.get_state())
    return made


def _merged(batches: tuple[Any, ...]) -> Any:
    first = batches[0]
    if isinstance(first, UserDict):  # as the batches of tokenizers
        made = copy.copy(first)
        made.data = local_tensor.merged([one.data for one in batches])
        return made
    return local_tensor.merged(batches)
