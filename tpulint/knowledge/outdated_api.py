"""Names of torchax and JAX that older code uses, and what became of them.

Measured on torch 2.13.0, torchax 0.0.14.dev20261026, jax 0.10.2: each name was looked up, each replacement
called. A version stands where JAX itself, or its change log, names it.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Outdated:
    """One name that is gone or on its way out.

    `what` ends the sentence that begins with the name. `instead` is the name that takes its place, empty
    where there is none; `exact` says that nothing else changes with it.
    `positional` names what the old one took by position after its first argument and the new one takes by
    keyword only, `keywords` the keywords that have another name now.
    """

    what: str
    instead: str = ""
    exact: bool = True
    positional: tuple[str, ...] = ()
    keywords: dict[str, str] = field(default_factory=dict)


_GONE = "no longer exists in jax 0.10.2"


def _tree(name: str) -> Outdated:
    return Outdated(f"{_GONE} (deprecated since 0.4.26)", f"jax.tree.{name}")


def _torchax(instead: str = "") -> Outdated:
    return Outdated("does not exist in torchax 0.0.14", instead)


#: By qualified name; whatever stands below a module that is gone is gone with it.
NAMES = {
    "jax.tree_map": _tree("map"),
    "jax.tree_leaves": _tree("leaves"),
    "jax.tree_flatten": _tree("flatten"),
    "jax.tree_unflatten": _tree("unflatten"),
    "jax.tree_structure": _tree("structure"),
    "jax.tree_transpose": _tree("transpose"),
    "jax.tree_all": _tree("all"),
    "jax.tree_reduce": _tree("reduce"),
    "jax.tree_multimap": Outdated(_GONE, "jax.tree.map"),
    "jax.tree_util.tree_multimap": Outdated(_GONE, "jax.tree.map"),
    "jax.experimental.shard_map.shard_map": Outdated(
        "is deprecated since jax 0.8.0",
        "jax.shard_map",
        positional=("mesh", "in_specs", "out_specs"),
        keywords={"check_rep": "check_vma"},
    ),
    "jax.experimental.maps": Outdated(
        f"{_GONE} (deprecated since 0.4.26); use `jax.shard_map` instead of `xmap`"
    ),
    "jax.experimental.maps.Mesh": Outdated(_GONE, "jax.sharding.Mesh"),
    "jax.experimental.pjit.pjit": Outdated("is deprecated in jax 0.10.2", "jax.jit", exact=False),
    "jax.experimental.pjit.PartitionSpec": Outdated(_GONE, "jax.sharding.PartitionSpec"),
    "jax.experimental.pjit.with_sharding_constraint": Outdated(_GONE, "jax.lax.with_sharding_constraint"),
    "jax.experimental.PartitionSpec": Outdated(_GONE, "jax.sharding.PartitionSpec"),
    "jax.interpreters.pxla.Mesh": Outdated(_GONE, "jax.sharding.Mesh"),
    "jax.experimental.host_callback": Outdated(f"{_GONE}; use `jax.experimental.io_callback` instead"),
    "jax.experimental.global_device_array": Outdated(f"{_GONE}; use `jax.Array`, which is global"),
    "jax.experimental.export": Outdated(_GONE, "jax.export"),
    "jax.experimental.enable_x64": Outdated(_GONE, "jax.enable_x64"),
    "jax.sharding.PositionalSharding": Outdated(f"{_GONE}; use `NamedSharding` instead"),
    "jax.sharding.XLACompatibleSharding": Outdated(_GONE, "jax.sharding.Sharding"),
    "jax.sharding.use_mesh": Outdated(_GONE, "jax.set_mesh"),
    "jax.xla_computation": Outdated(f"{_GONE}; use `jax.jit(f).lower(...)` instead"),
    "jax.device_put_sharded": Outdated(f"{_GONE}; use `jax.device_put` with a sharding instead"),
    "jax.device_put_replicated": Outdated(f"{_GONE}; use `jax.device_put` with a sharding instead"),
    "jax.clear_backends": Outdated(_GONE, "jax.extend.backend.clear_backends"),
    "jax.lib.xla_bridge": Outdated(_GONE, "jax.extend.backend", exact=False),
    **{
        f"jax.lib.xla_bridge.{name}": Outdated(_GONE, f"jax.{name}")
        for name in (
            *("default_backend", "device_count", "devices", "local_device_count", "local_devices"),
            *("process_count", "process_index"),
        )
    },
    "jax.lib.xla_client": Outdated(f"{_GONE}; `jax.extend` has what is left of it"),
    "jax.lib.xla_extension": Outdated(f"{_GONE}; `jax.extend` has what is left of it"),
    "jax.linear_util": Outdated(_GONE, "jax.extend.linear_util"),
    "jax.abstract_arrays": Outdated(_GONE),
    "jax.abstract_arrays.ShapedArray": Outdated(_GONE, "jax.core.ShapedArray"),
    "jax.config.config": Outdated(_GONE, "jax.config"),
    "jax.random.KeyArray": Outdated(_GONE, "jax.Array"),
    "jax.random.PRNGKeyArray": Outdated(_GONE, "jax.Array"),
    "jax.core.Jaxpr": Outdated(_GONE, "jax.extend.core.Jaxpr"),
    "jax.core.ClosedJaxpr": Outdated(_GONE, "jax.extend.core.ClosedJaxpr"),
    "jax.core.Literal": Outdated(_GONE, "jax.extend.core.Literal"),
    "jax.core.Primitive": Outdated(_GONE, "jax.extend.core.Primitive"),
    "jax.core.AbstractToken": Outdated(_GONE, "jax.extend.core.AbstractToken"),
    "jax.core.JaxprEqn": Outdated(_GONE, "jax.extend.core.JaxprEqn"),
    "jax.core.Token": Outdated(_GONE, "jax.extend.core.Token"),
    "jax.core.Var": Outdated(_GONE, "jax.extend.core.Var"),
    "jax.core.get_aval": Outdated("was removed in jax 0.10.0", "jax.typeof"),
    "jax.core.jaxpr_as_fun": Outdated(_GONE, "jax.extend.core.jaxpr_as_fun"),
    "jax.core.mapped_aval": Outdated("was removed in jax 0.10.0", "jax.extend.core.mapped_aval"),
    "jax.core.subjaxprs": Outdated("was removed in jax 0.10.0", "jax.extend.core.subjaxprs"),
    "jax.core.unmapped_aval": Outdated("was removed in jax 0.10.0", "jax.extend.core.unmapped_aval"),
    "jax.core.ConcreteArray": Outdated(f"{_GONE}; tracers have no concrete value"),
    "jax.core.raise_to_shaped": Outdated(f"{_GONE}; remove the call, because all abstract values are shaped"),
    "jax.api": Outdated(_GONE, "jax"),
    "jax.partial": Outdated(_GONE, "functools.partial"),
    "jax.lax_linalg": Outdated(_GONE, "jax.lax.linalg"),
    "jax.util": Outdated(f"{_GONE}; write the function yourself"),
    "jax.collect_profile": Outdated(f"{_GONE}; use `jax.profiler.start_trace` instead"),
    "jax.custom_transforms": Outdated(f"{_GONE}; use `jax.custom_jvp` or `jax.custom_vjp` instead"),
    "jax.defjvp": Outdated(f"{_GONE}; use `jax.custom_jvp` instead"),
    "jax.defvjp": Outdated(f"{_GONE}; use `jax.custom_vjp` instead"),
    "jax.mask": Outdated(_GONE),
    "jax.soft_pmap": Outdated(f"{_GONE}; use `jax.vmap` under `jax.jit` with sharded inputs instead"),
    "jax.experimental.optimizers": Outdated(_GONE, "jax.example_libraries.optimizers"),
    "jax.experimental.stax": Outdated(_GONE, "jax.example_libraries.stax"),
    "jax.experimental.loops": Outdated(f"{_GONE}; use `jax.lax.fori_loop` or `jax.lax.scan` instead"),
    "jax.experimental.vectorize": Outdated(f"{_GONE}; use `jax.numpy.vectorize` instead"),
    "jax.experimental.disable_x64": Outdated(f"{_GONE}; use `jax.enable_x64(False)` instead"),
    "jax.experimental.layout.DeviceLocalLayout": Outdated(_GONE, "jax.experimental.layout.Layout"),
    "jax.interpreters.masking": Outdated(_GONE),
    "jax.interpreters.sharded_jit": Outdated(f"{_GONE}; use `jax.jit` with sharded inputs instead"),
    "jax.interpreters.pxla.PartitionSpec": Outdated(_GONE, "jax.sharding.PartitionSpec"),
    "jax.interpreters.pxla.ShardedDeviceArray": Outdated(_GONE, "jax.Array"),
    "jax.interpreters.xla.DeviceArray": Outdated(_GONE, "jax.Array"),
    "jax.nn.normalize": Outdated(_GONE, "jax.nn.standardize"),
    "jax.random.shuffle": Outdated(_GONE, "jax.random.permutation"),
    "jax.random.threefry_2x32": Outdated(_GONE, "jax.extend.random.threefry_2x32"),
    "jax.random.default_prng_impl": Outdated(f"{_GONE}; `jax.config.jax_default_prng_impl` is its name"),
    "jax.dlpack.to_dlpack": Outdated(f"{_GONE}; pass the array itself to `from_dlpack` of the other library"),
    "jax.lax.tie_in": Outdated(f"{_GONE}; use its second argument instead of the call"),
    "jax.scipy.linalg.tril": Outdated(_GONE, "jax.numpy.tril"),
    "jax.scipy.linalg.triu": Outdated(_GONE, "jax.numpy.triu"),
    "jax.scipy.special.sph_harm": Outdated("was removed in jax 0.10.0; use `sph_harm_y` instead"),
    "jax.sharding.GSPMDSharding": Outdated(f"{_GONE}; use `NamedSharding` instead"),
    "jax.sharding.MeshPspecSharding": Outdated(_GONE, "jax.sharding.NamedSharding"),
    "jax.sharding.OpShardingSharding": Outdated(f"{_GONE}; use `NamedSharding` instead"),
    "jax.sharding.PmapSharding": Outdated(f"{_GONE}; use `NamedSharding` instead"),
    "jax.tree_util.register_keypaths": Outdated(f"{_GONE}; use `register_pytree_with_keys` instead"),
    "jax.treedef_is_leaf": Outdated(_GONE, "jax.tree_util.treedef_is_leaf"),
    "jax.numpy.issubsctype": Outdated(f"{_GONE}; use `jax.numpy.issubdtype` instead"),
    "jax.numpy.msort": Outdated(f"{_GONE}; use `jax.numpy.sort(x, axis=0)` instead"),
    "jax.ops.index_max": Outdated(f"{_GONE}; use `x.at[i].max(v)` instead"),
    "jax.ops.index_min": Outdated(f"{_GONE}; use `x.at[i].min(v)` instead"),
    "jax.ops.index_mul": Outdated(f"{_GONE}; use `x.at[i].mul(v)` instead"),
    "jax.ops.index_update": Outdated(f"{_GONE}; use `x.at[i].set(v)` instead"),
    "jax.ops.index_add": Outdated(f"{_GONE}; use `x.at[i].add(v)` instead"),
    "jax.numpy.DeviceArray": Outdated(_GONE, "jax.Array"),
    "jax.numpy.in1d": Outdated(_GONE, "jax.numpy.isin", exact=False),
    "jax.numpy.trapz": Outdated(_GONE, "jax.numpy.trapezoid"),
    "jax.numpy.row_stack": Outdated(_GONE, "jax.numpy.vstack"),
    "jax.numpy.round_": Outdated(_GONE, "jax.numpy.round"),
    "jax.numpy.product": Outdated(_GONE, "jax.numpy.prod"),
    "jax.numpy.cumproduct": Outdated(_GONE, "jax.numpy.cumprod"),
    "jax.numpy.sometrue": Outdated(_GONE, "jax.numpy.any"),
    "jax.numpy.alltrue": Outdated(_GONE, "jax.numpy.all"),
    "jax.numpy.fix": Outdated(_GONE, "jax.numpy.trunc"),
    "jax.lax.pvary": Outdated("was removed in jax 0.10.0; use `jax.lax.pcast(..., to='varying')` instead"),
    "jax.ad_checkpoint.checkpoint": Outdated("was removed in jax 0.10.0", "jax.checkpoint"),
    "jax.cloud_tpu_init": Outdated("is deprecated since jax 0.8.1; remove the import of this module"),
    "jax.tools.colab_tpu": Outdated(f"{_GONE}; remove this module, because JAX finds the TPU itself"),
    "jax.experimental.pallas.tpu.TPUCompilerParams": Outdated(
        _GONE, "jax.experimental.pallas.tpu.CompilerParams"
    ),
    "jax.experimental.pallas.tpu.TPUMemorySpace": Outdated(_GONE, "jax.experimental.pallas.tpu.MemorySpace"),
    "torchax.tensor.XLATensor2": _torchax("torchax.tensor.Tensor"),
    "torchax.tensor.t2j": _torchax("torchax.ops.mappings.t2j"),
    "torchax.tensor.j2t": _torchax("torchax.ops.mappings.j2t"),
    "torchax.tensor.t2j_dtype": _torchax("torchax.ops.mappings.t2j_dtype"),
    "torchax.tensor.j2t_dtype": _torchax("torchax.ops.mappings.j2t_dtype"),
    "torchax.tensor.move_to_device": _torchax(),
    "torch_xla2": Outdated("is the old name of torchax", "torchax", exact=False),
}

#: Functions of `jax.ops` that are methods of `x.at[i]` now.
INDEXED = {
    **{f"jax.ops.index_{name}": name for name in ("add", "max", "min", "mul")},
    "jax.ops.index_update": "set",
}

#: Modules that `import jax` does not load.
APART = ("jax.example_libraries.", "jax.experimental.", "jax.extend.")

#: Keywords that a function no longer takes, by what they are called now.
KEYWORDS = {
    "jax.shard_map": {"check_rep": "check_vma"},
    "jax.numpy.clip": {"a": "arr", "a_min": "min", "a_max": "max"},
}

_SPLASH = "jax.experimental.pallas.ops.tpu.splash_attention"
_SHARDS = {"head_shards": "1", "q_seq_shards": "1"}

#: Arguments that a function has come to need, with the value that means what it did without them, and the
#: position at which they may stand instead (-1 for none).
NEEDED = {
    f"{_SPLASH}.make_splash_mha": (-1, _SHARDS),
    f"{_SPLASH}.make_splash_mqa": (-1, _SHARDS),
    f"{_SPLASH}.LocalMask": (2, {"offset": "0"}),
    f"{_SPLASH}.splash_attention_kernel.make_splash_mha": (-1, _SHARDS),
    f"{_SPLASH}.splash_attention_kernel.make_splash_mqa": (-1, _SHARDS),
    f"{_SPLASH}.splash_attention_mask.LocalMask": (2, {"offset": "0"}),
}

#: The options of `torchax.config.Configuration`; any other attribute of it is read by nothing.
OPTIONS = frozenset(
    {
        "allow_mixed_math_with_scalar_tensor",
        "debug_accuracy_for_each_op",
        "debug_mixed_tensor",
        "debug_print_each_op",
        "debug_print_each_op_operands",
        "force_materialize_views",
        "internal_respect_torch_return_dtypes",
        "treat_cuda_as_jax_device",
        "use_dlpack_for_data_conversion",
        "use_int32_for_index",
    }
)

#: Environment variables that nothing reads, and the one that is read in their place.
VARIABLES = {"JAX_PLATFORM": "JAX_PLATFORMS", "JAX_USE_GPU": ""}


def outdated(qualified: str | None) -> tuple[str, Outdated] | None:
    """Whether tpulint knows the name as outdated; its entry, or None.

    The entry is that of the longest name in the table that the qualified name is, or lies below.
    """
    if qualified is None or not qualified.startswith(("jax.", "torchax.", "torch_xla2")):
        return None
    name = qualified
    while name:
        if name in NAMES:
            below = name != qualified
            found = NAMES[name]
            if below and found.instead:
                # What a module that has only moved held is where the module is now.
                found = Outdated(
                    found.what, f"{found.instead}{qualified.removeprefix(name)}", exact=found.exact
                )
            return name, found
        name = name.rpartition(".")[0]
    return None
