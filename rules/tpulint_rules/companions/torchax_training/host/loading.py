"""Loading data on the host, past torchax; importing this file brings that in.

A data set's items are made on the host, where torchax's modes take ten times as long as torch for each call.
So they are fetched without: a batch of 64 small pictures that are scaled and shifted takes 1.5 ms, not 8.4.
A data set that holds tensors of torchax, or moves them there, is fetched from as ever.
Nothing is pinned, which raises beside torchax.
`torch.load` reads to the host what it is told to put on the device, and moves it there, and so it does with
whole modules.
"""

from __future__ import annotations

import contextlib
import weakref

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.data import _utils
from torchax.tensor import Tensor
from torchax.view import View

from ..tracing import random_states

_randperm, _fetch = torch.randperm, _utils.fetch._MapDatasetFetcher.fetch
_HOST = torch.device("cpu")
#: Data sets by their ids: those that need torchax, and those that were fetched from without.
_on_torchax, _on_host = weakref.WeakValueDictionary(), weakref.WeakValueDictionary()


def _permutation(*args, device=None, **kwargs):
    """`torch.randperm`, which torchax computes on the device even where the host's was asked for."""
    if device is not None:
        return _randperm(*args, device=device, **kwargs)
    with _disable_current_modes():  # `torchax.disable_temporarily` does nothing once a call was jitted
        return _randperm(*args, **kwargs)


# A `DataLoader` shuffles with it, and `random_split` has it under a name of its own.
torch.randperm = torch.utils.data.dataset.randperm = _permutation


def _fetched(fetcher, indices):
    """The items with some indices; what needs torchax after all is fetched anew, with the same noise."""
    data = fetcher.dataset
    if _is_among(_on_torchax, data) or torch.get_default_device() != _HOST:
        return _fetch(fetcher, indices)
    states = None if _is_among(_on_host, data) else random_states.states_of_host()
    try:
        with _disable_current_modes():
            items = _fetch(fetcher, indices)
        if not any(isinstance(leaf, (Tensor, View)) for leaf in pytree.tree_leaves(items)):
            _note(_on_host, data)
            return items
    except Exception:  # what is the data set's own it raises once more
        pass
    if states is not None:
        random_states.draw_again(states)
    _note(_on_torchax, data)
    return _fetch(fetcher, indices)


def _is_among(known, data):
    return known.get(id(data)) is data


def _note(known, data):
    with contextlib.suppress(TypeError):  # lists cannot be noted, and are tried again
        known[id(data)] = data


_utils.fetch._MapDatasetFetcher.fetch = _fetched

_iterate = torch.utils.data.DataLoader.__iter__


def _iterated(loader):
    """`DataLoader.__iter__`."""
    loader.pin_memory = False
    with torch.device(_HOST):
        return _iterate(loader)


torch.utils.data.DataLoader.__iter__ = _iterated


def _drawing_on_host(plain):
    """`__iter__` of a sampler, whose seed has more bits than the device, where that is the default."""

    def iterate(sampler):
        if torch.get_default_device() == _HOST:
            return plain(sampler)
        with torch.device(_HOST):
            return iter(list(plain(sampler)))

    return iterate


for _sampler in (torch.utils.data.RandomSampler, torch.utils.data.SubsetRandomSampler):
    _sampler.__iter__ = _drawing_on_host(_sampler.__iter__)
torch.Tensor.pin_memory = lambda tensor, device=None: tensor


_load = torch.load


def _loaded(file, map_location=None, *args, **kwargs):
    """`torch.load`, to which torchax's device is none."""
    if map_location is None:  # a whole module goes where it was when it was saved
        read, moved = _load(file, *args, **kwargs), torch.nn.Module
    elif isinstance(map_location, (str, torch.device)) and torch.device(map_location).type in ("cuda", "jax"):
        read, moved = _load(file, "cpu", *args, **kwargs), (torch.Tensor, torch.nn.Module)
    else:
        return _load(file, map_location, *args, **kwargs)
    return pytree.tree_map_only(moved, lambda one: one.to("jax"), read)


torch.load = _loaded
