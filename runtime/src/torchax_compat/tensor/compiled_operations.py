"""Operations of torchax, each compiled by JAX once its calls have taken long enough.

An implementation of torchax consists of several JAX operations, and each of these takes Python time: `x *
0.9` of a small tensor takes 80 us on a CPU host, and 20 us compiled.
An operation is compiled for its plain arguments and the shapes of its inputs.
Floats that keep changing, such as learning rates, are inputs unless it needs their values, and so is the
index of a row.
Operations that cannot be compiled, such as those whose result has a shape that depends on values, run as they
are.
Operations that consist of others are compiled at once, if they do nothing but compute.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import torch
from torchax.tensor import Tensor

from ..adapters.jax_internals import ArrayImpl, trace_state_clean
from ..adapters.torch_internals import pytree
from ..jit import host_random
from . import dynamic_shapes

#: Seconds that the calls of an operation take before it is compiled; compiling takes about as long.
PATIENCE = 0.03
#: The number of operations that are timed; those with new shapes at each call would be too many.
MOST_WATCHED = 4096
#: For this many combinations of floats, the values are constants.
MOST_FLOATS = 3
#: The number of combinations of plain arguments for which an operation that consists of others is compiled.
MOST_DECOMPOSITIONS = 16

#: Types of values without tensors.
PLAIN = {bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout}
PLAIN |= {torch.memory_format}


def with_part(value: Any, dim: Any, place: Any, part: Any) -> Any:
    """An array with another part at one index of a dimension."""
    return value.at[(slice(None),) * dim + (place,)].set(part)


#: The positions of arguments that are indices, which are inputs of the operation.
PLACES = {torch.ops.aten.select.int: 2, with_part: 2}
_ARRAY = ArrayImpl
_operations: dict[Any, Any] = {}
_decompositions: dict[Any, Any] = {}


def computed(func: Any, function: Callable[..., Any], args: Any, options: Any) -> Any:
    """The result of an implementation in JAX, for arrays and plain values."""
    if not trace_state_clean():  # the program must not depend on the time that operations took before
        return _within_trace(func, function, args, options)
    leaves, tree = jax.tree.flatten((args, options))
    key: Any = [func, tree, torch.get_default_dtype()]
    inputs: list[Any] = []
    floats: tuple[float, ...] = ()
    at = _place(func, args)
    for number, leaf in enumerate(leaves):
        type_ = type(leaf)
        if type_ is _ARRAY:
            key.append(leaf.aval)
            inputs.append(leaf)
        elif number == at:
            key.append(type_)
            inputs.append(np.int32(leaf))
        elif type_ is float:
            key.append(type_)
            inputs.append(leaf)
            floats += (leaf,)
        elif type_ in PLAIN:
            key += type_, leaf
        else:
            return _within_trace(func, function, args, options)
    key = shapes = tuple(key)
    known = _operations.get(key)
    if floats and known is not None and known.depends_on(floats):
        key += floats
        inputs = [leaf for leaf in inputs if type(leaf) is not float]
        known = _operations.get(key)
    if (known is None or known.compiled is None) and dynamic_shapes.is_for_host(func, shapes, leaves):
        return dynamic_shapes.computed(func, args, options)
    if known is None:  # the first call takes longer than others
        if len(_operations) < MOST_WATCHED:
            _operations[key] = _Operation(floats)
        return function(*args, **options)
    if known.compiled is not None:
        try:
            return known.compiled(*inputs)
        except Exception:  # an error of the implementation itself is raised again below
            known.compiled, known.is_watched = None, False
    if not known.is_watched:
        return function(*args, **options)
    began = time.perf_counter()
    result = function(*args, **options)
    known.seconds += time.perf_counter() - began
    if known.seconds > PATIENCE:
        known.compile(function, leaves, tree, inputs, at, result)
    return result


def _within_trace(func: Any, function: Callable[..., Any], args: Any, options: Any) -> Any:
    """The result of an implementation where JAX traces the caller, and may use the name."""
    with jax.named_scope(func.name() if hasattr(func, "name") else func.__name__):
        return function(*args, **options)


def _place(func: Any, args: Any) -> Any:
    """The position of an index among the arguments, if the index is in range."""
    at = PLACES.get(func)
    if at is None or type(args[0]) is not _ARRAY or type(args[at]) is not int:
        return None
    size = args[0].shape[args[at - 1]]
    return at if -size <= args[at] < size else None


class _Operation:
    """The duration of an operation's calls, and its compiled version."""

    __slots__ = ("compiled", "floats", "is_watched", "needs_floats", "seconds")

    def __init__(self, floats: Any) -> None:
        self.compiled, self.seconds, self.is_watched = None, 0.0, True
        self.floats, self.needs_floats = {floats}, False

    def depends_on(self, floats: Any) -> bool:
        """Whether it is a different operation for other floats."""
        if len(self.floats) <= MOST_FLOATS:
            self.floats.add(floats)
        return self.needs_floats or len(self.floats) <= MOST_FLOATS

    def compile(
        self, function: Callable[..., Any], leaves: Any, tree: Any, inputs: Any, at: Any, result: Any
    ) -> None:
        """Compile it, if its compiled results have the types of a result of its own."""
        self.is_watched = False
        types = {type(leaf) for leaf in inputs}
        leaves = [None if type(leaf) in types or i == at else (leaf,) for i, leaf in enumerate(leaves)]

        def run(*inputs: Any) -> Any:
            values = iter(inputs)
            given = [next(values) if leaf is None else leaf[0] for leaf in leaves]
            args, options = jax.tree.unflatten(tree, given)
            return function(*args, **options)

        try:
            compiled = jax.jit(run)
            made = jax.tree.map(lambda leaf: leaf.aval, compiled(*inputs))
            if made == jax.tree.map(lambda leaf: leaf.aval, result):  # else it gives plain values, for one
                self.compiled = compiled
                return
        except Exception:  # it needs values
            pass
        self.needs_floats = float in types


def decomposed(mode: Any, func: Any, function: Callable[..., Any], args: Any, options: Any) -> Any:
    """The result of an operation that consists of others."""
    leaves, tree = jax.tree.flatten((args, options))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    values = [tensor.jax() for tensor in tensors]
    plain = tuple(None if isinstance(leaf, torch.Tensor) else (type(leaf), leaf) for leaf in leaves)
    known = _decompositions.setdefault(func, {})
    made = known.get((tree, plain))
    is_traced = any(isinstance(value, jax.core.Tracer) for value in values)
    shapes = tree, plain, *(value.aval for value in values)
    if not is_traced and dynamic_shapes.is_for_host(func, shapes, [*values, *leaves]):
        given = jax.tree.map(lambda one: one.jax() if isinstance(one, torch.Tensor) else one, (args, options))
        return jax.tree.map(lambda value: Tensor(value, mode.env), dynamic_shapes.computed(func, *given))
    if made is None and len(known) < MOST_DECOMPOSITIONS:
        made = known[tree, plain] = _Decomposition(mode, function, leaves, tree)
    if made is None or made.failed or is_traced:
        with mode:
            return function(*args, **options)
    try:
        return made(values)
    except Exception:
        made.failed = True
        return decomposed(mode, func, function, args, options)


class _Decomposition:
    """An operation that consists of others, for some plain arguments."""

    def __init__(self, mode: Any, function: Callable[..., Any], leaves: Any, tree: Any) -> None:
        self.mode, self.function, self.tree = mode, function, tree
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.failed, self.compiled = False, jax.jit(self._compute)

    def __call__(self, values: Any) -> Any:
        results = self.compiled(values)
        tensors = [value if value is None else Tensor(value, self.mode.env) for value in results]
        return tensors[0] if self.shape.is_leaf() else pytree.tree_unflatten(tensors, self.shape)

    def _compute(self, values: Any) -> Any:
        environment = self.mode.env
        leaves, given = list(self.leaves), [Tensor(value, environment) for value in values]
        for place, tensor in zip(self.places, given, strict=False):
            leaves[place] = tensor
        args, options = jax.tree.unflatten(self.tree, leaves)
        drawn, collected = environment.prng_key, host_random.CollectedDraws((), ())
        with self.mode, host_random.collecting(collected), host_random.recording_noise():
            result = self.function(*args, **options)
        results, self.shape = pytree.tree_flatten(result)
        is_written = any(tensor.jax() is not value for tensor, value in zip(given, values, strict=False))
        is_drawn = collected.draws or environment.prng_key is not drawn
        if is_written or is_drawn or {id(r) for r in results} & set(map(id, given)):
            environment.prng_key = drawn
            raise TypeError("the operation writes to its inputs, returns them, or draws random numbers")
        return [result if result is None else result.jax() for result in results]
