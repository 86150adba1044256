"""Compiled functions of local tensors: one program for all devices, each with the tensors of its rank.

JAX maps the function over the ranks, and XLA partitions it over the mesh.
Batch statistics, losses that are sums, and comparisons within a batch are those of one rank, as in the
original program.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax
import torch

from .. import ranks
from ..adapters.torch_internals import pytree
from ..autograd.compiled_function import CompiledFunction
from ..autograd.specialization import Specialization
from ..jit import reachable_modules, recompilations, trace
from ..tensor import arrays
from . import between_processes, joined_functions, local_tensor
from .local_tensor import LocalTensor

_call = torch.nn.Module.__call__
#: The attribute of a module for its compiled function of local tensors.
_COMPILED = "_torchax_ranks"


class NotMappedError(Exception):
    """A function cannot be mapped over the ranks."""


class _OfRanks:
    """An argument with one more dimension in front, for the ranks; a node of a tree of arguments."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole


pytree.register_pytree_node(
    _OfRanks, lambda one: ([one.whole], None), lambda children, _context: _OfRanks(children[0])
)


def _is_of_ranks(one: Any) -> bool:
    return isinstance(one, _OfRanks)


def _without_mark(one: Any) -> Any:
    return one.whole if isinstance(one, _OfRanks) else one


class MappedFunction(CompiledFunction):
    """A function under `@differentiable`, mapped over the ranks."""

    has_warned = False

    def specialize(self, *args: Any) -> Any:
        """A version for some arguments."""
        return _Mapped(*args)

    def stop_compiling(self, why: str) -> None:
        """Raise, since a function that runs call by call has the values of one rank."""
        raise NotMappedError(why)


class _Mapped(Specialization):
    """A specialization whose inputs and results have a dimension for the ranks in front.

    The ranks are those of this process, so that processes may call functions that others do not call.
    A function with collectives, or with parameters that are sharded over all processes, is joined: one
    program computes it for the ranks of all processes.
    """

    is_joined = False
    forward: Any
    backward: Any

    def __init__(self, owner: Any, leaves: Any, tree: Any, *others: Any) -> None:
        numbered = pytree.tree_unflatten(list(range(len(leaves))), tree)
        marked = pytree.tree_leaves(numbered, is_leaf=_is_of_ranks)
        plain = pytree.tree_map(_without_mark, numbered, is_leaf=_is_of_ranks)
        super().__init__(owner, leaves, pytree.tree_structure(plain), *others)
        leaves_of_ranks = [one.whole for one in marked if _is_of_ranks(one)]
        self.mapped = {self.places[leaf] for leaf in leaves_of_ranks if leaf in self.places}
        if any(between_processes.is_shared(arrays.array_of(one)) for one in self.parameters):
            self._join()

    def __call__(self, given: Any, is_compiled: bool) -> Any:
        """Call the function for some tensors; it cannot run call by call."""
        if not is_compiled:
            raise NotMappedError("it needs values of tensors in Python")
        try:
            return super().__call__(given, is_compiled)
        except ranks.OtherProcessesNeededError:
            self._join()
            return super().__call__(given, is_compiled)

    def _join(self) -> None:
        count, wanted = len(self.parameters), self.with_gradient
        of_ranks = [i >= count and i - count in self.mapped for i in range(len(wanted))]
        self.is_joined = True
        self.forward = joined_functions.Forward(
            self._forward,
            [is_of_ranks for is_of_ranks, wants in zip(of_ranks, wanted, strict=True) if wants],
            [is_of_ranks for is_of_ranks, wants in zip(of_ranks, wanted, strict=True) if not wants],
        )
        self.backward = joined_functions.Backward(self.forward)

    def _traced(
        self, learned: Any, fixed: Any, buffers: Any, random: Any, states: Any, drawn: Any, *, is_traced: bool
    ) -> Any:
        first = len(self.parameters)
        axes: list[Any] = [
            0 if i >= first and i - first in self.mapped else None for i in range(len(self.with_gradient))
        ]
        wanted = list(self.with_gradient)
        of_learned = [axis for axis, wants in zip(axes, wanted, strict=True) if wants]
        of_fixed = [axis for axis, wants in zip(axes, wanted, strict=True) if not wants]
        of_rank = functools.partial(
            super()._traced, buffers=buffers, states=states, drawn=drawn, is_traced=is_traced
        )

        def run(rank: Any, learned: Any, fixed: Any) -> Any:
            # Each rank draws numbers of its own, and leaves the same state.
            with ranks.of_one(ranks.Context.JOINED if self.is_joined else ranks.Context.MAPPED):
                return of_rank(learned, fixed, random=jax.random.fold_in(random, rank))

        numbers = jax.numpy.arange(ranks.world()) if self.is_joined else between_processes.own_ranks()
        axes_of_ranks = between_processes.data_axes() if self.is_joined else ranks.AXIS
        mapped = jax.vmap(
            run,
            in_axes=(0, of_learned, of_fixed),
            axis_name=ranks.AXIS,
            spmd_axis_name=axes_of_ranks,  # in a `shard_map`, each device has the tensors of its rank
        )
        floats, (rest, *others) = mapped(numbers, learned, fixed)
        return floats, (rest, *jax.tree.map(lambda value: value[0], others))


def called(owner: CompiledFunction, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of a compiled function with local tensors among its arguments."""
    if owner.mapped is None:
        owner.mapped = MappedFunction(owner.function, compiled=owner.is_compiled)
    return _result(owner.mapped, owner, owner.name, args, kwargs)


def called_module(module: torch.nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of a module with local tensors among its arguments."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return _call(module, *args, **kwargs)

    mapped = vars(module).get(_COMPILED)
    if mapped is None:
        mapped = vars(module)[_COMPILED] = MappedFunction(call)
        mapped.name = type(module).__name__
        mapped.compilations = recompilations.Compilations(module.forward)
    return _result(mapped, call, mapped.name, args, kwargs)


def _result(mapped: Any, function: Callable[..., Any], name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    if not mapped.is_compiled or not _are_on_device((args, kwargs)):
        return _by_rank(function, args, kwargs)
    try:
        given = pytree.tree_map(_whole, (args, kwargs))
        result = mapped(*given[0], **given[1])
    except local_tensor.DifferentShapesError as error:
        _warn_once(mapped, f"`{name}` runs once for each rank, since their tensors differ in shape: {error}")
        return _by_rank(function, args, kwargs)
    except NotMappedError as error:
        mapped.is_compiled = False
        _warn_once(mapped, f"`{name}` runs once for each rank, one after the other (slower): {error}")
        return _by_rank(function, args, kwargs)
    return pytree.tree_map(_as_local, result)


def _as_local(leaf: Any) -> Any:
    """A tensor that a mapped function returns, as a local tensor; parameters are the same on all ranks."""
    is_made = isinstance(leaf, torch.Tensor) and not isinstance(leaf, torch.nn.Parameter)
    return LocalTensor(whole=leaf) if is_made else leaf


def _are_on_device(values: Any) -> bool:
    leaves = (leaf for leaf in pytree.tree_leaves(values) if type(leaf) is LocalTensor)
    return all(leaf.device.type == "jax" for leaf in leaves)


def _whole(leaf: Any) -> Any:
    return _OfRanks(leaf.local_whole()) if type(leaf) is LocalTensor else leaf


def _by_rank(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of a function that is called for one rank after the other.

    Each rank has the buffers from before the call, and leaves those of rank 0, which
    `DistributedDataParallel` broadcasts.
    """
    modules = reachable_modules.modules_of(function, pytree.tree_leaves((args, kwargs)))
    buffers = list(trace.buffers_of(modules).values())
    before = [buffer.jax() for buffer in buffers]
    left, results = before, []
    for rank in range(ranks.count()):
        _write(buffers, before)
        given, named = local_tensor.of_rank((args, kwargs), rank)
        with ranks.of_one(ranks.Context.IN_TURN):
            results.append(function(*given, **named))
        left = [buffer.jax() for buffer in buffers] if rank == 0 else left
    _write(buffers, left)
    return local_tensor.merged(results)


def _write(tensors: Any, values: Any) -> None:
    for tensor, value in zip(tensors, values, strict=True):
        arrays.put(tensor, value)


def _warn_once(mapped: Any, text: str) -> None:
    if not mapped.has_warned:
        mapped.has_warned = True
        warnings.warn(text, stacklevel=5)


local_tensor.CALLS.update(function=called, module=called_module)
