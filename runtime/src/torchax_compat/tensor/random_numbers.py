"""Random numbers on the device, and `torch.nn.init`.

On JAX's CPU backend they are PyTorch's: a program draws the same numbers in the same order as without
torchax, also in compiled functions.
An accelerator draws its own, as GPUs do, except for initialized weights: these are always PyTorch's.
`dispatch.py` uses these functions, since in torchax `normal_` raises for a given deviation, `exponential_`
and `cauchy_` change nothing, `random_` does not draw integers, and a generator gives the same numbers each
time.
`torch.nn.init` treats torchax tensors as ones without data and skips them, and writes through views, which
are copies; here, it draws on the host.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import torch
from torchax.ops.mappings import t2j_dtype
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction, no_dispatch, pytree
from ..jit import concrete_values, deferred_scalars, host_random
from ..patches.declarations import TORCH, TORCHAX, patch
from . import arrays, memory_format

_aten = torch.ops.aten
_TORCHAX_TENSORS = (Tensor, View)
_IN_PLACE = (
    "bernoulli_",
    "cauchy_",
    "exponential_",
    "geometric_",
    "log_normal_",
    "normal_",
    "random_",
    "uniform_",
)
#: Functions and operations that draw for a given shape, or for the shape of a tensor.
_NEW = ("normal", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm")
#: Draws from a distribution that tensors define.
_OF_TENSORS = ("bernoulli", "multinomial")
#: Draws that torchax lacks, or that compute gradients of the drawn numbers.
_ON_HOST = ("_sample_dirichlet", "_standard_gamma", "binomial", "poisson")
#: Initializations that compute elsewhere, and write through a view or by `out`.
_ELSEWHERE = ("dirac_", "eye_", "orthogonal_")
#: Options for where and how a tensor is created, which do not affect the numbers.
_PLACING = ("device", "layout", "memory_format", "pin_memory", "requires_grad")


def _overloads(names: Any) -> Any:
    packets = [getattr(_aten, name) for name in names]
    return {getattr(packet, name) for packet in packets for name in packet.overloads() if "out" not in name}


#: Functions that create a tensor on a device, or like another tensor.
MAKING = {getattr(torch, name) for name in _NEW}
#: Operations.
DRAWS = _overloads((*_IN_PLACE, *_NEW, *_OF_TENSORS, *_ON_HOST))
_FILLS, _CHOSEN = _overloads(_IN_PLACE), _overloads(_ON_HOST)


def is_held(tensor: torch.Tensor) -> bool:
    """Whether a tensor is on the device, and not traced."""
    return isinstance(tensor, _TORCHAX_TENSORS) and not isinstance(tensor.jax(), jax.core.Tracer)


def drawn(environment: Any, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of a function or operation that draws; None if torchax computes it.

    PyTorch draws in the order of the elements in memory.
    """
    leaves = pytree.tree_leaves((args, kwargs))
    tensors = [one for one in leaves if isinstance(one, torch.Tensor)]
    if any(map(deferred_scalars.is_read, leaves)) or kwargs.get("out") is not None:
        return None
    if func in _FILLS:
        return _filled(environment, func, args, kwargs)
    if func in _CHOSEN:
        return _on_host(environment, func, args, kwargs, tensors)
    if func is _aten.multinomial.default:
        return _chosen(environment, *args, **kwargs)
    if func is _aten.bernoulli.default:
        return _true(environment, *args, **kwargs)
    if tensors and "_like" not in func.__name__ and not func.__name__.startswith("bernoulli"):
        return None  # tensors as bounds, or as parameters of a normal distribution
    return _made(environment, func, args, kwargs)


def _made(environment: Any, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A new tensor."""
    options = {name: value for name, value in kwargs.items() if name not in _PLACING}
    args = [_like(one) if isinstance(one, torch.Tensor) else _plain(one) for one in args]
    value = host_random.noise(host_random.Draw(func, tuple(args), options))
    if value is None and func in (torch.normal, _aten.normal.float_float):
        named = [kwargs[name] for name in ("mean", "std", "size") if name in kwargs]
        mean, std, size = args + named
        value = mean + std * jax.random.normal(environment.get_and_rotate_prng_key(), tuple(size))
        value = value.astype(t2j_dtype(kwargs.get("dtype") or torch.get_default_dtype()))
    if value is None:
        return None
    return Tensor(value, environment, requires_grad=bool(kwargs.get("requires_grad")))


def _plain(value: Any) -> Any:
    """Python numbers in place of NumPy's, as in sizes."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    return value.item() if isinstance(value, np.generic) else value


def _like(tensor: torch.Tensor, dtype: Any = None) -> Any:
    with no_dispatch(), DisableTorchFunction():
        made = torch.empty_like(memory_format.of(tensor))
    return host_random.Layout(tuple(made.shape), made.stride(), dtype or tensor.dtype)


def _filled(environment: Any, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A tensor filled with the numbers that a CPU tensor is filled with."""
    tensor, *others = args
    if func is _aten.bernoulli_.Tensor:
        value = jax.numpy.broadcast_to(_true(environment, *others, **kwargs).jax(), tensor.shape)
    else:
        one = host_random.Draw(func, (_like(tensor), *others), dict(kwargs))
        value = host_random.noise(one)
        if value is None and is_held(tensor):
            (value,) = host_random.new_numbers([one])
    if value is None:
        value = _of_device(environment, func, tensor, others, kwargs)
    return _put(tensor, value)


def _of_device(environment: Any, func: Any, tensor: torch.Tensor, args: Any, kwargs: dict[str, Any]) -> Any:
    """The numbers with which an accelerator fills a tensor."""
    options = {name: value for name, value in kwargs.items() if name != "generator"}
    key = environment.get_and_rotate_prng_key(kwargs.get("generator"))
    return _OF_DEVICE[func.overloadpacket.__name__](key, tensor.jax(), *args, **options)


def _whole(key: Any, x: Any, *bounds: Any, **options: Any) -> Any:
    low, high = (0, *bounds)[-2:] if bounds or options else (0, 2**24 if x.dtype.kind == "f" else 2**31 - 1)
    return jax.random.randint(key, x.shape, options.get("from", low), options.get("to", high))


def _normal(key: Any, x: Any, mean: Any = 0.0, std: Any = 1.0) -> Any:
    return mean + std * jax.random.normal(key, x.shape)


def _uniform(key: Any, x: Any, low: Any = 0.0, high: Any = 1.0, **bounds: Any) -> Any:
    low, high = bounds.get("from", low), bounds.get("to", high)
    return jax.random.uniform(key, x.shape, minval=low, maxval=high)


_OF_DEVICE: dict[str, Callable[..., Any]] = {
    "bernoulli_": lambda key, x, p=0.5: jax.random.uniform(key, x.shape) < p,
    "cauchy_": lambda key, x, median=0.0, sigma=1.0: median + sigma * jax.random.cauchy(key, x.shape),
    "exponential_": lambda key, x, lambd=1.0: jax.random.exponential(key, x.shape) / lambd,
    "geometric_": lambda key, x, p: jax.random.geometric(key, p, x.shape),
    "log_normal_": lambda key, x, mean=1.0, std=2.0: jax.numpy.exp(_normal(key, x, mean, std)),
    "normal_": _normal,
    "random_": _whole,
    "uniform_": _uniform,
}


def _put(tensor: torch.Tensor, value: Any) -> Any:
    value = value.astype(tensor.jax().dtype)
    if isinstance(tensor, View):
        tensor.update(value)
    else:
        tensor._elem = value
    return tensor


def _noise(environment: Any, function: Callable[..., Any], like: Any, generator: Any, draw: Any) -> Any:
    """Numbers of a torch function, or of the device, by a function such as `jax.random.uniform`."""
    options = {} if generator is None else {"generator": generator}
    value = host_random.noise(host_random.Draw(function, (like,), options))
    return draw(environment.get_and_rotate_prng_key(generator), like.shape) if value is None else value


def _true(environment: Any, chance: Any, generator: Any = None) -> Any:
    """`torch.bernoulli(chance)`."""
    like = _like(chance, torch.float64 if chance.dtype == torch.float64 else torch.float32)
    value = _noise(environment, torch.rand_like, like, generator, jax.random.uniform)
    return Tensor((value < chance.jax()).astype(chance.jax().dtype), environment)


def _chosen(
    environment: Any, chance: Any, count: int, replacement: bool = False, generator: Any = None
) -> Any:
    """`torch.multinomial(chance, count, replacement)`, as in torch; torchax's is the same in all rows."""
    if replacement and count > 1:
        rows = tuple(chance.shape[:-1])
        like = host_random.Layout(
            (*rows, count), torch.empty(*rows, count, device="meta").stride(), torch.float64
        )
        value = _noise(environment, torch.rand_like, like, generator, jax.random.uniform)
        return Tensor(_repeatedly(chance.jax(), value), environment)
    draw = _aten.exponential_.default
    odds = chance.jax() / _noise(environment, draw, _like(chance), generator, jax.random.exponential)
    if count == 1:
        return Tensor(jax.numpy.argmax(odds, -1, keepdims=True), environment)
    return Tensor(jax.lax.top_k(odds, count)[1], environment)


def _repeatedly(chance: Any, value: Any) -> Any:
    sums = jax.numpy.cumsum(chance, -1)
    sums = (sums / sums[..., -1:]).reshape(-1, chance.shape[-1])
    places = jax.vmap(jax.numpy.searchsorted)(sums, value.reshape(len(sums), -1))
    return places.reshape(value.shape)


def _on_host(environment: Any, func: Any, args: Any, kwargs: dict[str, Any], tensors: Any) -> Any:
    """Numbers that torch draws on the host for tensors with known values; None if the values are unknown."""
    session = concrete_values.session()
    if not all(map(is_held, tensors)):
        if concrete_values.is_replaying():
            raise concrete_values.UnknownAnswerError
        return None
    if isinstance(session, concrete_values.Recording):
        session.note(func, is_repeated=False)
    args, kwargs = pytree.tree_map(
        lambda one: arrays.on_host(one.jax()) if isinstance(one, _TORCHAX_TENSORS) else one, (args, kwargs)
    )
    with DisableTorchFunction(), no_dispatch(), torch.no_grad():
        made = func(*args, **kwargs)
    return Tensor(arrays.of_host(made), environment)


def _initialising(plain: Any) -> Any:
    @functools.wraps(plain)
    def initialised(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not is_held(tensor):
            return plain(tensor, *args, **kwargs)
        with DisableTorchFunction(), no_dispatch(), torch.no_grad():
            made = plain(torch.empty(tensor.shape, dtype=tensor.dtype), *args, **kwargs)
        return _put(tensor, arrays.of_host(made))

    return initialised


for _name in _ELSEWHERE:
    patch(
        f"torch.nn.init:{_name}",
        why="It writes through views, which are copies on torchax.",
        upstream=TORCH + "nn/init.py",
    )(_initialising(getattr(torch.nn.init, _name)))

_IS_META = False
_WHY = "`torch.nn.init` skips tensors without data, which torchax tensors seem."
patch("torchax.tensor:Tensor.is_meta", why=_WHY, upstream=TORCHAX + "tensor.py")(_IS_META)
patch("torchax.view:View.is_meta", why=_WHY, upstream=TORCHAX + "view.py")(_IS_META)
