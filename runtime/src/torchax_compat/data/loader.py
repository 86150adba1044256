"""`DataLoader`, samplers and `torch.load` without torchax's overhead on the host.

Items of a data set are created on the host, where torchax makes each call ten times as slow as PyTorch.
So `DataLoader` fetches items without torchax: a batch of 64 small images that are scaled and shifted takes
1.5 ms instead of 8.4 ms.
Data sets that hold torchax tensors, or move tensors to the device, are fetched from with torchax.

- Memory is not pinned: with torchax, pinning raises.
- Samplers, and `torch.randperm` without a device, draw on the host.
- `torch.load` with the device as `map_location` reads tensors and modules to the host and moves them to the
  device; without `map_location`, whole modules are moved as well.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

import torch
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import disable_current_modes, fetch_items, pytree
from ..distributed import local_loading
from ..jit import random_states
from ..patches.declarations import TORCH, patch

_randperm = torch.randperm
_HOST = torch.device("cpu")
#: Data sets by `id`: those that need torchax, and those that were fetched from without it.
_on_torchax: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_on_host: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


# A `DataLoader` shuffles with it, and `random_split` has it under a name of its own.
@patch("torch:randperm", why="torchax computes it on the device, even if it is requested on the host.")
@patch(
    "torch.utils.data.dataset:randperm",
    why="torchax computes it on the device, even if it is requested on the host.",
    upstream=TORCH + "utils/data/dataset.py",
)
def _permutation(*args: Any, device: Any = None, **kwargs: Any) -> Any:
    """`torch.randperm`, on the host if no device is given."""
    if device is not None:
        return _randperm(*args, device=device, **kwargs)
    with disable_current_modes():  # `torchax.disable_temporarily` does nothing once a call was jitted
        return _randperm(*args, **kwargs)


@patch(
    "torch.utils.data._utils.fetch:_MapDatasetFetcher.fetch",
    why="torchax makes each call ten times as slow as PyTorch, also for items on the host.",
    upstream=TORCH + "utils/data/_utils/fetch.py",
)
def _fetched(fetcher: Any, indices: Any) -> Any:
    """The items at some indices; if torchax is needed, fetched again with the same random numbers."""
    data = fetcher.dataset
    if _is_among(_on_torchax, data) or torch.get_default_device() != _HOST:
        return fetch_items(fetcher, indices)
    states = None if _is_among(_on_host, data) else random_states.states()
    try:
        with disable_current_modes():
            items = fetch_items(fetcher, indices)
        if not any(isinstance(leaf, (Tensor, View)) for leaf in pytree.tree_leaves(items)):
            _note(_on_host, data)
            return items
    except Exception:  # an error of the data set itself is raised again below
        pass
    if states is not None:
        random_states.restore(states)
    _note(_on_torchax, data)
    return fetch_items(fetcher, indices)


def _is_among(known: Any, data: Any) -> bool:
    return known.get(id(data)) is data


def _note(known: Any, data: Any) -> None:
    with contextlib.suppress(TypeError):  # no weak references to lists: these are tried again
        known[id(data)] = data


_iterate = torch.utils.data.DataLoader.__iter__


@patch(
    "torch.utils.data:DataLoader.__iter__",
    why="Pinning of memory raises on torchax, and seeds have more bits than the device supports.",
    upstream=TORCH + "utils/data/dataloader.py",
)
def _iterated(loader: Any) -> Any:
    """`DataLoader.__iter__`."""
    loader.pin_memory = False
    with torch.device(_HOST):
        if local_loading.is_distributed(loader):
            return local_loading.batches(loader, _iterate)
        return _iterate(loader)


def _drawing_on_host(plain: Any) -> Any:
    """`__iter__` of a sampler, whose seed has more bits than the device supports, if that is the default."""

    def iterate(sampler: Any) -> Any:
        if torch.get_default_device() == _HOST:
            return plain(sampler)
        with torch.device(_HOST):
            return iter(list(plain(sampler)))

    return iterate


for _name in ("RandomSampler", "SubsetRandomSampler"):
    patch(
        f"torch.utils.data:{_name}.__iter__",
        why="A seed has more bits than the device supports, where `torch.set_default_device` is the device.",
        upstream=TORCH + "utils/data/sampler.py",
    )(_drawing_on_host(getattr(torch.utils.data, _name).__iter__))


@patch("torch:Tensor.pin_memory", why="It raises without CUDA; JAX copies from any memory of the host.")
def _pinned(tensor: torch.Tensor, device: Any = None) -> Any:  # noqa: ARG001 # torch's
    return tensor


_load = torch.load


@patch(
    "torch:load",
    why='It does not know the device `"jax"` as `map_location`, and leaves whole modules on the host.',
    upstream=TORCH + "serialization.py",
)
def _loaded(file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`torch.load`, to torchax's device."""
    if map_location is None:  # a whole module returns to the device from which it was saved
        read, moved = _load(file, *args, **kwargs), torch.nn.Module
    elif isinstance(map_location, (str, torch.device)) and torch.device(map_location).type in ("cuda", "jax"):
        read, moved = _load(file, "cpu", *args, **kwargs), (torch.Tensor, torch.nn.Module)
    else:
        return _load(file, map_location, *args, **kwargs)
    return pytree.tree_map_only(moved, lambda one: one.to("jax"), read)
