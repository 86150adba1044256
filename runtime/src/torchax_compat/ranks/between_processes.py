"""Communication between processes, each of which has the ranks of its own devices.

An array of one process is on its own devices only.
For a collective, the arrays of all processes become one array over all devices: without a copy, since each
device keeps its part.
JAX takes that array for one with equal parts where the processes have different values, which the collective
then combines.

All functions must be called by all processes, in the same order and with the same shapes.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .. import ranks
from ..adapters.jax_internals import array_of_parts
from ..tensor import deferral, sharding

#: The name of the dimension of the mesh that has the processes.
_AXIS = "processes"


@functools.cache
def mesh() -> Any:
    """The devices of all processes, with those of each process as in its own mesh."""
    rows: list[list[Any]] = [[] for _ in range(jax.process_count())]
    for device in jax.devices():
        rows[device.process_index].append(device)
    shape = (len(rows), ranks.count(), ranks.model())
    used = np.array([row[: ranks.count() * ranks.model()] for row in rows])
    return Mesh(used.reshape(shape), (_AXIS, ranks.AXIS, ranks.MODEL_AXIS))


def check() -> None:
    """Compare the numbers of ranks of all processes.

    Raises:
        RuntimeError: they differ.
    """
    from jax.experimental import multihost_utils

    counts = np.ravel(multihost_utils.process_allgather(np.int32(ranks.count()))).tolist()
    if len(set(counts)) > 1:
        raise RuntimeError(
            f"the processes have different numbers of ranks, {', '.join(map(str, counts))}: start them on "
            f"hosts with the same number of devices, and with the same `{ranks.VARIABLE}`"
        )


def summed(values: Sequence[Any]) -> list[Any]:
    """The sums over the processes of arrays that each of them has."""
    return _combined("sum", values)


def averaged(values: Sequence[Any]) -> list[Any]:
    """The averages over the processes."""
    return _combined("average", values)


def least(values: Sequence[Any]) -> list[Any]:
    """The minima over the processes."""
    return _combined("least", values)


def greatest(values: Sequence[Any]) -> list[Any]:
    """The maxima over the processes."""
    return _combined("greatest", values)


def of_process(source: int, values: Sequence[Any]) -> list[Any]:
    """The arrays of one of the processes."""
    return _combined("copy", values, source)


def gathered(values: Sequence[Any]) -> list[Any]:
    """The arrays of all processes, with one more dimension in front."""
    return _combined("gather", values)


def exchanged(value: Any) -> list[Any]:
    """The objects of all processes, which are pickled."""
    data = np.frombuffer(pickle.dumps(value), np.uint8)
    (lengths,) = gathered([jax.numpy.asarray(len(data), "int32")])
    known = np.asarray(lengths).tolist()
    padded = np.zeros(1 << (max(known) - 1).bit_length(), np.uint8)  # few lengths, so that JAX compiles few
    padded[: len(data)] = data
    (rows,) = gathered([jax.numpy.asarray(padded)])
    return [pickle.loads(row[:length].tobytes()) for row, length in zip(np.asarray(rows), known, strict=True)]


def lists_joined(own: list[Any]) -> list[Any]:
    """The items of the lists that the processes have."""
    if ranks.processes() == 1:
        return own
    return [one for sent in exchanged(own) for one in sent]


def wait() -> None:
    """Wait for all processes."""
    jax.block_until_ready(summed([jax.numpy.zeros(())]))


def _combined(operation: str, values: Sequence[Any], source: int = 0) -> list[Any]:
    if not values:
        return []
    deferral.settle()  # all processes compute what is recorded at the same time
    placed = [_on_own_devices(value) for value in values]
    specs = tuple(value.sharding.spec for value in placed)
    program = _program(operation, source, specs)
    made = program([whole(value, are_of_ranks=False) for value in wait_on_cpu(placed)])
    return [own(one, are_of_ranks=False) for one in wait_on_cpu(made)]


def _on_own_devices(value: Any) -> Any:
    """An array that is sharded over the mesh of this process, or replicated."""
    if isinstance(value.sharding, NamedSharding) and value.sharding.mesh == sharding.mesh():
        return value
    return jax.device_put(value, sharding.replicated())


def _joined(value: Any, to: Any) -> Any:
    """An array with the parts that another one has on the devices of this process."""
    return array_of_parts(value, to)


def whole(value: Any, *, are_of_ranks: bool) -> Any:
    """An array on the devices of all processes, with what each process has on its own devices.

    Args:
        value: an array of this process.
        are_of_ranks: whether its first dimension has the ranks of this process, and then those of all.
    """
    if is_shared(value):
        return value
    if not are_of_ranks:
        value = _on_own_devices(jax.numpy.asarray(value))
        return _joined(value, NamedSharding(mesh(), value.sharding.spec))
    value = jax.device_put(value, sharding.rows())
    parts = [part.data for part in value.addressable_shards]
    shape = (ranks.processes() * value.shape[0], *value.shape[1:])
    return jax.make_array_from_single_device_arrays(shape, of_all_ranks(), parts)


def is_shared(value: Any) -> bool:
    """Whether an array is on the devices of all processes, as sharded parameters are."""
    return isinstance(value, jax.Array) and not value.is_fully_addressable


def gathered_parts(values: Sequence[Any]) -> list[Any]:
    """Arrays of this process with all elements of arrays that are sharded over all processes."""
    if not values:
        return []
    deferral.settle()
    program = _gathering(len(values))
    return [own(one, are_of_ranks=False) for one in wait_on_cpu(program(wait_on_cpu(list(values))))]


@functools.cache
def _gathering(count: int) -> Any:
    return jax.jit(lambda values: values, out_shardings=[same_on_all()] * count)


def own(value: Any, *, are_of_ranks: bool) -> Any:
    """The array of this process, for an array on the devices of all that is sharded as by `whole`."""
    if not are_of_ranks:
        return _joined(value, NamedSharding(sharding.mesh(), value.sharding.spec))
    parts = [part.data for part in value.addressable_shards]
    shape = (value.shape[0] // ranks.processes(), *value.shape[1:])
    return jax.make_array_from_single_device_arrays(shape, sharding.rows(), parts)


def of_all_ranks() -> Any:
    """The sharding of an array with a row for each rank of all processes."""
    return NamedSharding(mesh(), PartitionSpec((_AXIS, ranks.AXIS)))


def same_on_all(spec: Any = None) -> Any:
    """The sharding of an array that all processes have, on their devices as by a partition spec."""
    return NamedSharding(mesh(), spec or PartitionSpec())


def data_axes() -> tuple[str, str]:
    """The dimensions of the mesh that stand for the ranks."""
    return _AXIS, ranks.AXIS


def wait_on_cpu(values: Any) -> Any:
    """Wait for arrays on a CPU, where a collective may take the threads that compute its arguments."""
    return jax.block_until_ready(values) if jax.default_backend() == "cpu" else values


def on_each_process(function: Any) -> Any:
    """A function of arrays that `shared` returns, which computes on each process with what this one has.

    The dimensions of the mesh within a process are left to XLA.
    """
    return jax.shard_map(
        function,
        mesh=mesh(),
        in_specs=PartitionSpec(),
        out_specs=PartitionSpec(),
        axis_names={_AXIS},
        check_vma=False,
    )


def own_mesh() -> Any:
    """The mesh of this process, also within a function on each process."""
    known = jax.sharding.get_abstract_mesh()
    return sharding.mesh() if _AXIS not in known.manual_axes else known


def own_ranks() -> Any:
    """The numbers of the ranks of this process, which a function on each process has as an array."""
    try:
        process = jax.lax.axis_index(_AXIS)
    except NameError:  # not within such a function
        return jax.numpy.asarray(ranks.own())
    return process * ranks.count() + jax.numpy.arange(ranks.count())


def shared(value: Any) -> Any:
    """An array of this process as one on the devices of all; numbers stay as they are."""
    return whole(value, are_of_ranks=False) if isinstance(value, jax.Array) else value


def unshared(value: Any) -> Any:
    """The array of this process, for one that a function on each process returns."""
    return own(value, are_of_ranks=False)


def averaged_within(values: Sequence[Any]) -> list[Any]:
    """The averages over the processes, within a function on each of them."""
    return [jax.lax.pmean(value, _AXIS) for value in values]


def of_first_within(values: Sequence[Any]) -> list[Any]:
    """The arrays of process 0, within a function on each of them."""
    return [_copy(0, value) for value in values]


@functools.cache
def _program(operation: str, source: int, specs: tuple[Any, ...]) -> Any:
    """A compiled function of lists of arrays, each of which has one of the partition specs."""
    combine = functools.partial(_COMBINED[operation], source)
    made_specs = [PartitionSpec(None, *spec) if operation == "gather" else spec for spec in specs]

    def run(values: Any) -> Any:
        return [combine(value) for value in values]

    return jax.jit(
        jax.shard_map(run, mesh=mesh(), in_specs=(list(specs),), out_specs=made_specs, check_vma=False)
    )


def _copy(source: int, value: Any) -> Any:
    is_source = jax.lax.axis_index(_AXIS) == source
    is_truth = value.dtype == bool
    value = value.astype("uint8") if is_truth else value
    copied = jax.lax.psum(jax.numpy.where(is_source, value, jax.numpy.zeros_like(value)), _AXIS)
    return copied.astype(bool) if is_truth else copied


_COMBINED: dict[str, Any] = {
    "sum": lambda _, value: jax.lax.psum(value, _AXIS),
    "average": lambda _, value: jax.lax.pmean(value, _AXIS),
    "least": lambda _, value: jax.lax.pmin(value, _AXIS),
    "greatest": lambda _, value: jax.lax.pmax(value, _AXIS),
    "copy": _copy,
    "gather": lambda _, value: jax.lax.all_gather(value, _AXIS),
}


def _start() -> Any:
    """Connect the processes, and forget their devices at the end."""
    if ranks.processes() > 1:
        check()
    return _forget


def _forget() -> None:
    mesh.cache_clear()
    _program.cache_clear()
    _gathering.cache_clear()


ranks.STARTS.append(_start)
ranks.CHANGES.append(_forget)
