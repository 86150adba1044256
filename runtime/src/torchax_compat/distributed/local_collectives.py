"""Collectives of `torch.distributed` over the ranks of this process."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import torch
from torch import distributed

from .. import ranks
from ..ranks import local_tensor
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


class Done:
    """The result of an operation with `async_op=True`: it is complete."""

    def wait(self, *_args: Any) -> bool:
        """Whether the operation has succeeded."""
        return True

    def is_completed(self) -> bool:
        """Whether the operation has ended."""
        return True


def _collective(function: Callable[..., Any]) -> Callable[..., Any]:
    """A collective over all ranks; groups of some of them are not supported."""

    @functools.wraps(function)
    def run(*args: Any, group: Any = None, async_op: bool = False, **kwargs: Any) -> Any:
        if group is not None and distributed.get_world_size(group) != ranks.count():
            raise NotImplementedError(
                f"`{function.__name__}` over some of the ranks: one process drives all of them, and only "
                "collectives over all ranks are supported"
            )
        with torch.no_grad():
            function(*args, **kwargs)
        return Done() if async_op else None

    return run


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    if isinstance(tensor, LocalTensor):
        return tensor.local_parts()
    return [tensor] * ranks.count()


def _write(tensor: torch.Tensor, values: list[Any]) -> None:
    """Write a value for each rank to a tensor."""
    if all(value is values[0] for value in values) and not isinstance(tensor, LocalTensor):
        tensor.copy_(values[0])
        return
    if not local_tensor.localize(tensor):
        raise RuntimeError("a collective writes to a parameter, or to a view of a tensor")
    assert isinstance(tensor, LocalTensor)
    for part, value in zip(tensor.local_parts(), values, strict=True):
        part.copy_(value)
    tensor.was_written()


def _reduced(tensor: torch.Tensor, op: Any) -> torch.Tensor:
    parts = _parts(tensor)
    total = functools.reduce(_REDUCING[op], parts)
    if total is parts[0]:
        total = total.clone()
    return total / len(parts) if op == _OP.AVG else total


@_collective
def _all_reduce(tensor: torch.Tensor, op: Any = _OP.SUM) -> None:
    if arrays.is_traced(tensor):
        arrays.write(tensor, _OF_AXIS[op](tensor.jax(), ranks.AXIS))
        return
    total = _reduced(tensor, op)
    _write(tensor, [total] * ranks.count())


@_collective
def _reduce(tensor: torch.Tensor, dst: int | None = None, op: Any = _OP.SUM, group_dst: Any = None) -> None:
    to = dst if dst is not None else group_dst
    total = _reduced(tensor, op)
    _write(tensor, [total if rank == to else part for rank, part in enumerate(_parts(tensor))])


@_collective
def _broadcast(tensor: torch.Tensor, src: int | None = None, group_src: Any = None) -> None:
    if isinstance(tensor, LocalTensor):
        given = tensor.local_parts()[(src if src is not None else group_src) or 0].clone()
        _write(tensor, [given] * ranks.count())


@_collective
def _all_gather(tensor_list: list[Any], tensor: torch.Tensor) -> None:
    if tensor.dtype == torch.uint8 and not isinstance(tensor, LocalTensor):
        ranks.report_once(
            "`all_gather` gets the bytes of rank 0 for all ranks, as of a pickled object; gather tensors "
            "instead"
        )
    for target, part in zip(tensor_list, _parts(tensor), strict=True):
        _write(target, [part] * ranks.count())


@_collective
def _all_gather_into_tensor(output_tensor: torch.Tensor, input_tensor: torch.Tensor) -> None:
    whole = torch.cat(_parts(input_tensor)).reshape(output_tensor.shape)
    _write(output_tensor, [whole] * ranks.count())


@_collective
def _gather(tensor: torch.Tensor, gather_list: Any = None, **_destination: Any) -> None:
    for target, part in zip(gather_list or (), _parts(tensor), strict=bool(gather_list)):
        _write(target, [part] * ranks.count())


@_collective
def _scatter(tensor: torch.Tensor, scatter_list: Any = None, src: Any = None, group_src: Any = None) -> None:
    source = (src if src is not None else group_src) or 0
    if scatter_list:
        _write(tensor, [_parts(scatter_list[rank])[source] for rank in range(ranks.count())])


@_collective
def _reduce_scatter(output: torch.Tensor, input_list: list[Any], op: Any = _OP.SUM) -> None:
    _write(output, [_reduced(one, op) for one in input_list])


@_collective
def _reduce_scatter_tensor(output: torch.Tensor, whole: torch.Tensor, op: Any = _OP.SUM) -> None:
    total = _reduced(whole, op)
    _write(output, list(total.reshape(ranks.count(), *output.shape)))


@_collective
def _all_to_all(output_tensor_list: list[Any], input_tensor_list: list[Any]) -> None:
    given = [_parts(one) for one in input_tensor_list]
    for source, target in enumerate(output_tensor_list):
        _write(target, [given[rank][source].clone() for rank in range(ranks.count())])


def _check_object(name: str, obj: Any) -> None:
    """Report an object that has nothing of the other ranks."""
    if not local_tensor.differs(obj):
        ranks.report_once(
            f"`{name}` gets the object of rank 0 for each of {ranks.count()} ranks: only tensors, and "
            "numbers from `item()` and `tolist()`, have the values of all ranks; gather tensors instead"
        )


@_collective
def _all_gather_object(object_list: list[Any], obj: Any) -> None:
    _check_object("all_gather_object", obj)
    object_list[:] = [local_tensor.of_rank(obj, rank) for rank in range(ranks.count())]


@_collective
def _gather_object(obj: Any, object_gather_list: Any = None, **_destination: Any) -> None:
    _check_object("gather_object", obj)
    if object_gather_list is not None:
        object_gather_list[:] = [local_tensor.of_rank(obj, rank) for rank in range(ranks.count())]


@_collective
def _broadcast_object_list(
    object_list: list[Any], src: Any = None, *, group_src: Any = None, **_options: Any
) -> None:
    source = (src if src is not None else group_src) or 0
    object_list[:] = [local_tensor.of_rank(one, source) for one in object_list]


@_collective
def _scatter_object_list(
    output_list: list[Any], input_list: Any = None, *_source: Any, **_options: Any
) -> None:
    first = input_list[0]
    if any(one != first for one in input_list):
        raise NotImplementedError("`scatter_object_list` gives the ranks of this process different objects")
    output_list[0] = first


@_collective
def _barrier(**_kwargs: Any) -> None:
    """Nothing to wait for."""


#: The collectives, by their names in `torch.distributed`.
COLLECTIVES: dict[str, Callable[..., Any]] = {
    name.removeprefix("_"): function
    for name, function in list(globals().items())
    if getattr(function, "__wrapped__", None) is not None
}
