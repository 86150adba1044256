"""Operations of torchax, each compiled by JAX once it was called often.

An implementation of torchax consists of several operations of JAX, and each of those takes Python's time:
`x * 0.9` of a small tensor takes 80 us on a CPU host, compiled 20.
An operation is one with its plain arguments and the shapes that it is given; what cannot be compiled, such
as one whose result has a shape that depends on values, runs as it is.
Operations that are made of others are compiled at once, where that is all that they do.
"""

from __future__ import annotations

import jax
import torch
from torch.utils import _pytree as pytree
from torchax.tensor import Tensor

#: Calls after which an operation is compiled: until then that would take longer than it gains.
OFTEN = 400
#: So many operations are counted; of what has other shapes at each call no more are.
MOST_COUNTED = 4096
#: For more combinations of plain arguments than these, an operation that is made of others is not compiled.
MOST_DECOMPOSITIONS = 16

#: What holds no tensors.
PLAIN = {bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout}
PLAIN |= {torch.memory_format}
_ARRAY = type(jax.numpy.zeros(()))
#: How often each operation was called, then what it was compiled to, or None where that cannot be.
_operations = {}
_decompositions = {}


def computed(func, function, args, options):
    """What an implementation of JAX makes of arguments that are arrays and plain values."""
    leaves, tree = jax.tree.flatten((args, options))
    key = [func, tree, torch.get_default_dtype()]
    for leaf in leaves:
        kind = type(leaf)
        if kind is _ARRAY:
            key.append(leaf.aval)
        elif kind in PLAIN:
            key += kind, leaf
        else:  # JAX traces what calls it, and may want to know its name
            with jax.named_scope(func.name()):
                return function(*args, **options)
    key = tuple(key)
    made = _operations.get(key, 0)
    if type(made) is int:
        if made < OFTEN:
            if made or len(_operations) < MOST_COUNTED:
                _operations[key] = made + 1
            return function(*args, **options)
        made = _operations[key] = _compiled(function, leaves, tree)
    if made is not None:
        try:
            return made([leaf for leaf in leaves if type(leaf) is _ARRAY])
        except Exception:  # what is the implementation's own it raises once more
            _operations[key] = None
    return function(*args, **options)


def _compiled(function, leaves, tree):
    leaves = [None if type(leaf) is _ARRAY else (leaf,) for leaf in leaves]

    def run(values):
        values = iter(values)
        given = [next(values) if leaf is None else leaf[0] for leaf in leaves]
        args, options = jax.tree.unflatten(tree, given)
        result = function(*args, **options)
        if not all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(result)):
            raise TypeError("compiled, it would give an array for a plain value")
        return result

    return jax.jit(run)


def decomposed(mode, func, function, args, options):
    """What an operation gives that is made of others."""
    leaves, tree = jax.tree.flatten((args, options))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    values = [tensor.jax() for tensor in tensors]
    plain = tuple(None if isinstance(leaf, torch.Tensor) else (type(leaf), leaf) for leaf in leaves)
    known = _decompositions.setdefault(func, {})
    made = known.get((tree, plain))
    if made is None and len(known) < MOST_DECOMPOSITIONS:
        made = known[tree, plain] = _Decomposition(mode, function, leaves, tree)
    if made is None or made.failed or any(isinstance(value, jax.core.Tracer) for value in values):
        with mode:
            return function(*args, **options)
    try:
        return made(values)
    except Exception:
        made.failed = True
        return decomposed(mode, func, function, args, options)


class _Decomposition:
    """What an operation is made of, for some plain arguments."""

    def __init__(self, mode, function, leaves, tree):
        self.mode, self.function, self.tree = mode, function, tree
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.failed, self.compiled = False, jax.jit(self._compute)

    def __call__(self, values):
        results = self.compiled(values)
        tensors = [value if value is None else Tensor(value, self.mode.env) for value in results]
        return tensors[0] if self.shape.is_leaf() else pytree.tree_unflatten(tensors, self.shape)

    def _compute(self, values):
        environment = self.mode.env
        leaves, given = list(self.leaves), [Tensor(value, environment) for value in values]
        for place, tensor in zip(self.places, given):
            leaves[place] = tensor
        args, options = jax.tree.unflatten(self.tree, leaves)
        drawn = environment.prng_key
        with self.mode:
            result = self.function(*args, **options)
        results, self.shape = pytree.tree_flatten(result)
        is_written = any(tensor.jax() is not value for tensor, value in zip(given, values))
        if is_written or environment.prng_key is not drawn or {id(r) for r in results} & set(map(id, given)):
            environment.prng_key = drawn
            raise TypeError("it does more than compute")
        return [result if result is None else result.jax() for result in results]
