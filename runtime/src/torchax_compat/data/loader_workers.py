"""`DataLoader` workers without processes: batches are created in the program itself.

Worker processes that are forked next to the threads of JAX hang, and other ones hang in the torchax
environment.
With `num_workers > 0`, batches are created one after the other when they are needed.
Each is as the worker whose turn it is would create it: with random numbers of its own, seeded as PyTorch
seeds them, and with its own `get_worker_info()`.
With the same seed, a program gets the same batches as with workers, including augmentations.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import itertools
import random
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torchax

from ..adapters.torch_internals import (
    LoaderIterator,
    WorkerInfo,
    create_fetcher,
    exchange_worker_info,
    loader_iterator,
    numpy_seed,
)
from ..jit import random_states
from ..patches.declarations import TORCH, patch

#: The number of objects of a data set that are searched for random generators, and the number of items from
#: which a container is shared by the workers.
_MOST = 1000
#: Shared by the copies of a data set: functions, and random generators, whose states are exchanged.
_OTHERS = (types.FunctionType, types.ModuleType, types.MethodType, random.Random)


class _Worker:
    """One worker: the states of its random generators, and whether it has batches left."""

    def __init__(self, batches: Any, number: Any, start: Any) -> None:
        seed = batches._base_seed + number
        self._batches, self._data = batches, _copied(batches._dataset, {})
        self._state: Any = None
        self._info = WorkerInfo(id=number, num_workers=batches._num_workers, seed=seed, dataset=self._data)
        with self._at_work():
            random.seed(seed)
            torch.default_generator.manual_seed(seed)
            np.random.seed(numpy_seed(batches._base_seed, number))
            if start is not None:
                start(number)

    def begin(self) -> None:
        """Begin an epoch."""
        of = self._batches
        with self._at_work():
            self._fetcher = create_fetcher(
                of._dataset_kind, self._data, of._auto_collation, of._collate_fn, of._drop_last
            )
        self.is_done = False

    def make(self, indices: Any) -> Any:
        """A batch, and whether there was one: an iterable data set may have ended."""
        with self._at_work():
            try:
                return self._fetcher.fetch(indices), True
            except StopIteration:
                self.is_done = True
                return None, False

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[Any]:
        environment = torchax.default_env()
        generators = self._batches.generators
        outside, key = random_states.states(generators), environment.prng_key
        before = exchange_worker_info(self._info)
        if self._state is not None:
            random_states.restore(self._state)
        try:
            yield
        finally:
            self._state = random_states.states(generators)
            exchange_worker_info(before)
            random_states.restore(outside)
            environment.prng_key = key


class _InTurn(LoaderIterator):
    """The batches of a loader, as its workers would create them."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._ahead = (loader.prefetch_factor or 2) * self._num_workers
        self.generators = random_states.generators(_held(loader.dataset))
        self._workers = [_Worker(self, i, loader.worker_init_fn) for i in range(self._num_workers)]
        self._reset(loader)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        for worker in self._workers:
            worker.begin()
        self._turns = itertools.cycle(self._workers)
        self._tasks: collections.deque[Any] = collections.deque()
        for _ in range(self._ahead):
            self._plan()

    def _plan(self) -> None:
        """Draw the next indices, as far ahead as for processes, for a worker with batches left."""
        with contextlib.suppress(StopIteration):
            indices = self._next_index()
            turns = itertools.islice(self._turns, self._num_workers)
            self._tasks.append((next(one for one in turns if not one.is_done), indices))

    def _next_data(self) -> Any:
        while self._tasks:
            worker, indices = self._tasks.popleft()
            if worker.is_done:
                continue
            batch, is_made = worker.make(indices)
            self._plan()
            if is_made:
                return batch
        raise StopIteration


def _copied(value: Any, known: Any) -> Any:
    """A copy of a data set for one worker, of the parts that it may change: objects and small containers."""
    if id(value) in known:
        return known[id(value)]
    made = value
    if type(value) in (list, tuple, dict) and len(value) < _MOST:
        if type(value) is tuple:
            return tuple(_copied(one, known) for one in value)
        made = known[id(value)] = copy.copy(value)
        for place, one in list(made.items() if type(value) is dict else enumerate(made)):
            made[place] = _copied(one, known)
    elif _may_be_copied(value):
        with contextlib.suppress(Exception):  # the object has its own way of being copied
            made = known[id(value)] = copy.copy(value)
            for name, one in list(vars(made).items()):
                made.__dict__[name] = _copied(one, known)
    return made


def _may_be_copied(value: Any) -> bool:
    """Whether a value is an object without its own way of being copied, and not a module."""
    type_: Any = type(value)
    is_own = type_.__reduce_ex__ is object.__reduce_ex__ and type_.__reduce__ is object.__reduce__
    return (
        is_own
        and hasattr(value, "__dict__")
        and not isinstance(value, (type, torch.nn.Module, torch.Tensor, *_OTHERS))
    )


def _held(data: Any) -> Any:
    """The objects in a data set, and those within them, such as transforms."""
    waiting = collections.deque([data])
    seen: dict[int, Any] = {}
    while waiting and len(seen) < _MOST:
        value = waiting.popleft()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        inner = vars(value) if hasattr(value, "__dict__") else value
        if isinstance(inner, dict):
            inner = list(inner.values())
        if isinstance(inner, (list, tuple)) and len(inner) < _MOST:
            waiting.extend(inner)
    return seen.values()


@patch(
    "torch.utils.data:DataLoader._get_iterator",
    why="Worker processes that are forked next to the threads of JAX hang.",
    upstream=TORCH + "utils/data/dataloader.py",
)
def _batches(loader: Any) -> Any:
    """`DataLoader._get_iterator`."""
    return _InTurn(loader) if loader.num_workers else loader_iterator(loader)
