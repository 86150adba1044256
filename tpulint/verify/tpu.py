"""Compilation for TPUs that are not there: libtpu holds the real compiler and runs on any host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def compile_for(topology: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """Trace a function of torchax tensors and compile it for a topology such as `v5e:2x2`.

    Gives what the compiler reckons that it needs; raises what tracing or compiling raises.
    The environment must be entered.
    """
    import jax
    import numpy as np
    import torchax
    from jax.experimental import topologies
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    from torchax import interop

    described = topologies.get_topology_desc(platform="tpu", topology_name=topology)
    mesh = Mesh(np.array(described.devices[:1]), ("x",))
    # Without a TPU's sharding on at least one argument, JAX quietly compiles for the CPU.
    on_tpu = NamedSharding(mesh, PartitionSpec())

    def abstract(array: Any) -> Any:
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=on_tpu)

    environment = torchax.default_env()
    jax_function = interop.jax_view(function)

    # torchax cannot wrap a random key, so it travels beside the arguments.
    def with_key(key: Any, *values: Any) -> Any:
        with environment.override_property(prng=key):
            result = jax_function(*values)
            return result, environment.prng_key

    values = jax.tree.map(abstract, interop.jax_view(arguments))
    compiled = jax.jit(with_key).lower(abstract(jax.random.key(0)), *values).compile()
    memory = compiled.memory_analysis()
    # No memory analysis: not a TPU executable, whatever else it is.
    kind = described.devices[0].device_kind
    return f"{kind}, {memory.argument_size_in_bytes + memory.temp_size_in_bytes} bytes"
