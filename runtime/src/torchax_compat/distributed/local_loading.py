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


def _sampler(loader: Any) -> Any:
    """The sampler of a loader that has a share for each rank, or None."""
    inner = getattr(loader.batch_sampler, "sampler", None)
    for one in (loader.sampler, loader.batch_sampler, inner):
        if (
            getattr(one, "num_replicas", None) == ranks.world()
            and getattr(one, "rank", None) == ranks.first()
        ):
            return one
    return None


def _check(sampler: Any) -> None:
    """Warn if a sampler of the program ignores the rank that is set on a copy of it."""
    is_own = isinstance(sampler, torch.utils.data.DistributedSampler)
    if is_own and type(sampler).__iter__ is torch.utils.data.DistributedSampler.__iter__:
        return
    if ranks.count() == 1:
        return
    first, second = (list(_with_rank(sampler, rank)) for rank in ranks.own()[:2])
    if first == second and len(first) > 1:
        warnings.warn(
            f"`{type(sampler).__name__}` gives all ranks the same samples: it does not read its attribute "
            "`rank` when it is iterated over; each device computes the same batch",
            stacklevel=4,
        )


def _with_rank(sampler: Any, rank: int) -> Any:
    made = copy.copy(sampler)
    made.rank = rank
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
    return made


def _merged(batches: tuple[Any, ...]) -> Any:
    first = batches[0]
    if isinstance(first, UserDict):  # as the batches of tokenizers
        made = copy.copy(first)
        made.data = local_tensor.merged([one.data for one in batches])
        return made
    return local_tensor.merged(batches)
