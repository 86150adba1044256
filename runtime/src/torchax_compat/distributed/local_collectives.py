"""Collectives of `torch.distributed` over the ranks of this process, and of others."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import torch
from torch import distributed

from .. import ranks
from ..ranks import between_processes, local_tensor
from ..ranks.local_tensor import LocalTensor
from ..tensor import arrays

_OP = distributed.ReduceOp
_REDUCING: dict[Any, Callable[[Any, Any], Any]] = {
    _OP.SUM: operator.add,
    _OP.AVG: operator.add,
    _OP.PRODUCT: operator.mul,
    _OP.MIN: torch.minimum,
    _OP.MAX: torch.maximum,
    _OP.BAND: torch.bitwise_and,
    _OP.BOR: torch.bitwise_or,
    _OP.BXOR: torch.bitwise_xor,
}
_OF_AXIS = {_OP.SUM: jax.lax.psum, _OP.AVG: jax.lax.pmean, _OP.MIN: jax.lax.pmin, _OP.MAX: jax.lax.pmax}
#: Those that the devices of several processes compute, without the values of all of them on each.
_OF_PROCESSES = {
    _OP.SUM: between_processes.summed,
    _OP.AVG: between_processes.summed,
    _OP.MIN: between_processes.least,
    _OP.MAX: between_processes.greatest,
}


class Done:
    """The result of an operation with `async_op=True`: it is complete."""

    def wait(self, *_args: Any) -> bool:
        """Whether the operation has succeeded."""
        return True

    def is_completed(self) -> bool:
        """Whether the operation has ended."""
        return True


class Group(NamedTuple):
    """The ranks that a collective combines."""

    #: Whether they have different batches.
    is_of_data: bool
    #: How many of them have the same batch, and other parts of the parameters.
    copies: int


def _group(group: Any) -> Group | None:
    """What a process group of the program comes to; None for one that is not supported."""
    model, found = ranks.model(), distributed.get_process_group_ranks(group) if group else ()
    if len(found) in (0, ranks.size()):
        return Group(is_of_data=True, copies=model)
    if len(found) == ranks.world() and len({one % model for one in found}) == 1:
        return Group(is_of_data=True, copies=1)
    if len(found) == model and len({one // model for one in found}) == 1:
        return Group(is_of_data=False, copies=model)
    return None


def _collective(function: Callable[..., Any]) -> Callable[..., Any]:
    """A collective over all ranks, or those along a dimension of a mesh with parts of parameters."""

    @functools.wraps(function)
    def run(*args: Any, group: Any = None, async_op: bool = False, **kwargs: Any) -> Any:
        combined = _group(group)
        if combined is None:
            raise NotImplementedError(
                f"`{function.__name__}` over some of the ranks: one process drives those of all its devices, "
                "and only collectives over all ranks, or over a dimension of a mesh, are supported"
            )
        if ranks.are_of_one() and not (function in _MAPPED and ranks.are_mapped()):
            raise NotImplementedError(
                f"`{function.__name__.removeprefix('_')}` in a compiled function, or in one that runs once "
                "for each rank: call it outside of functions that are decorated with `@differentiable`"
            )
        if combined != _ALL and function not in _OF_GROUPS:
            raise NotImplementedError(
                f"`{function.__name__.removeprefix('_')}` where a device mesh has parts of the parameters"
            )
        with torch.no_grad():
            if function in _OF_GROUPS:
                kwargs["of"] = combined
            function(*args, **kwargs)
        return Done() if async_op else None

    return run


#: The ranks of a program in which each has all parameters.
_ALL = Group(is_of_data=True, copies=1)


def _own_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The tensors of the ranks of this process."""
    if isinstance(tensor, LocalTensor):
        return tensor.local_parts()
    return [tensor] * ranks.count()


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The tensors of all ranks."""
    own = _own_parts(tensor)
    if ranks.processes() == 1:
        return own
    if not isinstance(tensor, LocalTensor):
        return [one for one in _of_processes(tensor) for _ in own]
    try:
        wholes = _of_processes(tensor.local_whole() if tensor.device.type == "jax" else torch.stack(own))
    except local_tensor.DifferentShapesError:
        return between_processes.lists_joined(own)
    return [part for whole in wholes for part in whole]


def _of_processes(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The tensors that the processes have, each of which has one of the same shape."""
    if tensor.device.type == "jax":
        (values,) = between_processes.gathered([arrays.array_of(tensor)])
        return [arrays.tensor(value) for value in values]
    return between_processes.exchanged(tensor.detach().clone())


def _write(tensor: torch.Tensor, values: list[Any]) -> None:
    """Write a value for each rank of this process to a tensor."""
    if all(value is values[0] for value in values) and not isinstance(tensor, LocalTensor):
        tensor.copy_(values[0])
        return
    if not local_tensor.localize(tensor):
        raise RuntimeError("a collective writes to a parameter, or to a view of a tensor")
    assert isinstance(tensor, LocalTensor)
    for part, value in zip(tensor.local_parts(), values, strict=True):
        part.copy_(value)
    tensor.was_written()


def _of_copies(value: Any, op: Any, copies: int) -> Any:
    """A value that several ranks have, combined."""
    if copies > 1 and op == _OP.SUM:
        return value * copies
    if copies > 1 and op == _OP.PRODUCT:
        return value**copies
    if copies > 1 and op == _OP.BXOR:
        raise NotImplementedError("`BXOR` where a device mesh has parts of the parameters")
    return value


def _reduced(tensor: torch.Tensor, op: Any) -> torch.Tensor:
    own = _own_parts(tensor)
    total = functools.reduce(_REDUCING[op], own)
    if total is own[0]:
        total = total.clone()
    if ranks.processes() > 1:
        if op in _OF_PROCESSES and total.device.type == "jax" and total.dtype != torch.bool:
            (value,) = _OF_PROCESSES[op]([arrays.array_of(total)])
            total = arrays.tensor(value)
        else:
            total = functools.reduce(_REDUCING[op], _of_processes(total))
    return total / ranks.world() if op == _OP.AVG else total


@_collective
def _all_reduce(tensor: torch.Tensor, op: Any = _OP.SUM, of: Group = _ALL) -> None:
    if ranks.are_of_one():
        if op not in _OF_AXIS:
            raise NotImplementedError(f"`all_reduce` with {op} in a compiled function: call it outside of it")
        value = arrays.array_of(tensor)
        value = _OF_AXIS[op](value, ranks.AXIS) if of.is_of_data else value
        arrays.write(tensor, _of_copies(value, op, of.copies))
        return
    found = [_reduced(tensor, op)] if of.is_of_data else _own_parts(tensor)
    _write(tensor, _for_each([_of_copies(one, op, of.copies) for one in found]))


@_collective
def _reduce(tensor: torch.Tensor, dst: int | None = None, op: Any = _OP.SUM, group_dst: Any = None) -> None:
    to = _rank(dst, group_dst)
    total = _reduced(tensor, op)
    own = zip(ranks.own(), _own_parts(tensor), strict=True)
    _write(tensor, [total if rank == to else part for rank, part in own])


@_collective
def _broadcast(tensor: torch.Tensor, src: int | None = None, group_src: Any = None, of: Group = _ALL) -> None:
    if not of.is_of_data:
        return  # all of them have the same
    number = src // ranks.model() if src is not None else (group_src or 0) // of.copies
    source, rank = divmod(number, ranks.count())
    if ranks.processes() == 1 and not isinstance(tensor, LocalTensor):
        return
    given = _own_parts(tensor)[rank].clone()
    if ranks.processes() > 1:
        if given.device.type == "jax":
            (value,) = between_processes.of_process(source, [arrays.array_of(given)])
            given = arrays.tensor(value)
        else:
            given = between_processes.exchanged(given.detach())[source]
    _write(tensor, [given] * ranks.count())


def _for_each(values: list[Any]) -> list[Any]:
    """A value for each rank of this process, for one that all of them have."""
    return values * ranks.count() if len(values) == 1 else values


def _rank(of_all: int | None, of_group: int | None) -> int:
    """The rank that a collective sends from or to, which is the same among all and in the group of all."""
    return (of_all if of_all is not None else of_group) or 0


@_collective
def _all_gather(tensor_list: list[Any], tensor: torch.Tensor, of: Group = _ALL) -> None:
    if tensor.dtype == torch.uint8 and not isinstance(tensor, LocalTensor) and ranks.count() > 1:
        ranks.report_once(
            "`all_gather` gets the bytes of the first rank of a process for all its ranks, as of a pickled "
            "object; gather tensors instead"
        )
    if ranks.are_of_one():
        value = jax.lax.stop_gradient(arrays.array_of(tensor))
        values = jax.lax.all_gather(value, ranks.AXIS) if of.is_of_data else [value]
        for target, one in zip(tensor_list, _repeated(list(values), of), strict=True):
            arrays.write(target, one)
        return
    for target, values in zip(tensor_list, _gathered(tensor, of), strict=True):
        _write(target, values)


def _gathered(tensor: torch.Tensor, of: Group) -> list[list[Any]]:
    """For each rank of a group, its tensor as each rank of this process gets it."""
    if of.is_of_data:
        return _repeated([[part] * ranks.count() for part in _parts(tensor)], of)
    return _repeated([_own_parts(tensor)], of)


def _repeated(values: list[Any], of: Group) -> list[Any]:
    """Values with those of ranks that have the same."""
    return [value for value in values for _ in range(of.copies)]


@_collective
def _all_gather_into_tensor(
    output_tensor: torch.Tensor, input_tensor: torch.Tensor, of: Group = _ALL
) -> None:
    for_each = zip(*_gathered(input_tensor, of), strict=True)
    _write(output_tensor, [torch.cat(parts).reshape(output_tensor.shape) for parts in for_each])


@_collective
def _gather(tensor: torch.Tensor, gather_list: Any = None, **_destination: Any) -> None:
    for target, part in zip(gather_list or (), _parts(tensor), strict=bool(gather_list)):
        _write(target, [part] * ranks.count())


@_collective
def _scatter(tensor: torch.Tensor, scatter_list: Any = None, src: Any = None, group_src: Any = None) -> None:
    source, rank = divmod(_rank(src, group_src), ranks.count())
    given = [_own_parts(one)[rank] for one in scatter_list or ()]
    if ranks.processes() > 1:
        given = between_processes.exchanged(given)[source]
    _write(tensor, [given[rank] for rank in ranks.own()])


@_collective
def _reduce_scatter(output: torch.Tensor, input_list: list[Any], op: Any = _OP.SUM) -> None:
    totals = [_reduced(one, op) for one in input_list]
    _write(output, [totals[rank] for rank in ranks.own()])


@_collective
def _reduce_scatter_tensor(output: torch.Tensor, whole: torch.Tensor, op: Any = _OP.SUM) -> None:
    totals = _reduced(whole, op).reshape(ranks.world(), *output.shape)
    _write(output, [totals[rank] for rank in ranks.own()])


@_collective
def _all_to_all(output_tensor_list: list[Any], input_tensor_list: list[Any]) -> None:
    given = [_parts(one) for one in input_tensor_list]
    for source, target in enumerate(output_tensor_list):
        _write(target, [given[rank][source].clone() for rank in ranks.own()])


def _objects_like(name: str, obj: Any) -> list[Any]:
    """The objects of all ranks, for that of this process; reports one that has nothing of its other ranks."""
    if ranks.count() > 1 and not local_tensor.differs(obj):
        ranks.report_once(
            f"`{name}` gets the object of rank 0 for each of {ranks.count()} ranks: only tensors, and "
            "numbers from `item()` and `tolist()`, have the values of all ranks; gather tensors instead"
        )
    return between_processes.lists_joined([local_tensor.of_rank(obj, rank) for rank in range(ranks.count())])


@_collective
def _all_gather_object(object_list: list[Any], obj: Any) -> None:
    object_list[:] = _objects_like("all_gather_object", obj)


@_collective
def _gather_object(obj: Any, object_gather_list: Any = None, **_destination: Any) -> None:
    found = _objects_like("gather_object", obj)
    if object_gather_list is not None:
        object_gather_list[:] = found


@_collective
def _broadcast_object_list(
    object_list: list[Any], src: Any = None, *, group_src: Any = None, **_options: Any
) -> None:
    source, rank = divmod(_rank(src, group_src), ranks.count())
    given = [local_tensor.of_rank(one, rank) for one in object_list]
    if ranks.processes() > 1:
        given = between_processes.exchanged(given if source == ranks.process() else None)[source]
    object_list[:] = given


@_collective
def _scatter_object_list(
    output_list: list[Any], input_list: Any = None, src: Any = None, *, group_src: Any = None, **_options: Any
) -> None:
    given = input_list
    if ranks.processes() > 1:
        given = between_processes.exchanged(input_list)[_rank(src, group_src) // ranks.count()]
    first, *others = (given[rank] for rank in ranks.own())
    if any(one != first for one in others):
        raise NotImplementedError("`scatter_object_list` gives the ranks of one process different objects")
    output_list[0] = first


@_collective
def _barrier(*, of: Group = _ALL, **_kwargs: Any) -> None:  # noqa: ARG001 # for all groups
    """Wait for the other processes."""
    if ranks.processes() > 1 and not ranks.are_of_one():
        between_processes.wait()


#: Those that a function which JAX maps over the ranks may call.
_MAPPED = {one.__wrapped__ for one in (_all_reduce, _all_gather, _barrier)}  # type: ignore[attr-defined]
#: Those over ranks some of which have the same batch.
_OF_GROUPS = {
    one.__wrapped__  # type: ignore[attr-defined]
    for one in (_all_reduce, _broadcast, _all_gather, _all_gather_into_tensor, _barrier)
}
#: The collectives, by their names in `torch.distributed`.
COLLECTIVES: dict[str, Callable[..., Any]] = {
    name.removeprefix("_"): function
    for name, function in list(globals().items())
    if getattr(function, "__wrapped__", None) is not None
}
