"""`index_reduce`, which torchax lacks, with PyTorch's gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import torch

from ..patches.declarations import operator

_aten = torch.ops.aten


def _index_reduce(
    x: Any, dim: Any, index: Any, source: Any, reduce: Any, *, include_self: bool = True
) -> Any:
    if not x.ndim:
        made = _index_reduce(x[None], 0, index, source.reshape(-1), reduce, include_self=include_self)
        return made[0]
    index = jnp.reshape(index, -1)
    x, source = jnp.moveaxis(x, dim, 0), jnp.moveaxis(source, dim, 0)
    taken = jnp.zeros(len(x), bool).at[index].set(True).reshape(-1, *(1,) * (x.ndim - 1))
    is_own = include_self | ~taken  # elements that nothing is added to stay
    made = _REDUCTIONS[reduce](x, is_own, index, source)
    return jnp.moveaxis(made.astype(x.dtype), 0, dim)


def _extremes(reduced: Any) -> Any:
    @jax.custom_vjp
    def extreme(x: Any, is_own: bool, index: Any, source: Any) -> Any:
        is_float = jnp.issubdtype(x.dtype, jnp.floating)
        limits = (-jnp.inf, jnp.inf) if is_float else (jnp.iinfo(x.dtype).min, jnp.iinfo(x.dtype).max)
        start = jnp.where(is_own, x, limits[reduced == "min"])
        return getattr(start.at[index], reduced)(source)

    def with_parts(x: Any, is_own: bool, index: Any, source: Any) -> Any:
        best = extreme(x, is_own, index, source)
        return best, (x, is_own, index, source, best)

    def gradient_of(parts: Any, gradient: Any) -> Any:
        """Equal extremes share the gradient; PyTorch counts the element itself, included or not."""
        x, is_own, index, source, best = parts
        is_best, are_best = x == best, source == best[index]
        count = is_best.astype(x.dtype).at[index].add(are_best.astype(x.dtype))
        share = gradient / count
        return jnp.where(is_best & is_own, share, 0), None, None, jnp.where(are_best, share[index], 0)

    extreme.defvjp(with_parts, gradient_of)
    return extreme


def _mean(x: Any, is_own: bool, index: Any, source: Any) -> Any:
    total = jnp.where(is_own, x, 0).at[index].add(source)
    count = jnp.broadcast_to(is_own, x.shape).astype(x.dtype).at[index].add(1)
    return total / count if jnp.issubdtype(x.dtype, jnp.floating) else total // count


@jax.custom_vjp
def _prod(x: Any, is_own: bool, index: Any, source: Any) -> Any:
    return jnp.where(is_own, x, 1).at[index].multiply(source)


def _prod_with_parts(x: Any, is_own: bool, index: Any, source: Any) -> Any:
    return _prod(x, is_own, index, source), (x, is_own, index, source)


def _prod_gradient(parts: Any, gradient: Any) -> Any:
    """The product of all other factors, also where one is zero."""
    x, is_own, index, source = parts
    own = jnp.where(is_own, x, 1)
    others = jnp.where(own == 0, 1, own).at[index].multiply(jnp.where(source == 0, 1, source))
    zeros = (own == 0).astype("int32").at[index].add((source == 0).astype("int32"))

    def without(factor: Any, others: Any, zeros: Any) -> Any:
        is_zero = factor == 0
        alone = jnp.where(is_zero & (zeros == 1), others, 0)
        return jnp.where(zeros == 0, others / jnp.where(is_zero, 1, factor), alone)

    of_own = jnp.where(is_own, gradient * without(own, others, zeros), 0)
    of_source = gradient[index] * without(source, others[index], zeros[index])
    return of_own, None, None, of_source


_prod.defvjp(_prod_with_parts, _prod_gradient)

_REDUCTIONS = {"amax": _extremes("max"), "amin": _extremes("min"), "mean": _mean, "prod": _prod}

operator(_index_reduce, _aten.index_reduce, _aten.index_reduce.default, why="torchax lacks `index_reduce`.")
