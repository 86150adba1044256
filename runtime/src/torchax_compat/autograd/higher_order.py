"""`torch.autograd.grad` on torchax: operations are recorded, and JAX differentiates them.

PyTorch's autograd does not see all that torchax computes, and cannot differentiate it twice.
In a function decorated with `@higher_order`, `torch.autograd.grad` computes the path from its inputs to its
outputs again under JAX, which computes the gradients.
With `@differentiable` above `@higher_order`, these gradients can be differentiated again.

`backward()` in such a function works in the same way, as in losses that first search for an adversarial
example:
tensors created in the function get their gradients.
Parameters do not, since the program sets their gradients to zero afterwards.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import jax
import torch
import torchax
from torch.overrides import TorchFunctionMode
from torchax.interop import torch_view
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction, pytree
from ..jit import host_random
from ..patches.declarations import TORCHAX, patch
from ..tensor import arrays
from .complex_numbers import conjugated


class NotRecordedError(Exception):
    """`torch.autograd.grad` was called, but the operations that led to its outputs were not recorded."""


#: Attributes that return a tensor without a gradient, which may be changed in place.
_WITHOUT_GRADIENT = (torch.Tensor.grad.__get__, torch.Tensor.data.__get__)
#: PyTorch's message for outputs that were computed without gradients.
_NO_GRAPH = "element 0 of tensors does not require grad and does not have a grad_fn"


class _Call:
    """A call of a torch function, with the values of its arguments at that time, and its result."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: dict[str, Any] | None) -> None:
        self.function, self.key = function, torchax.default_env().prng_key
        self.leaves, self.tree = pytree.tree_flatten((args, kwargs or {}))
        self.values = [_value(leaf) for leaf in self.leaves]
        with host_random.recording_noise() as self.drawn:
            self.result = function(*args, **(kwargs or {}))

    def depends_on(self, known: Any, inputs: Any) -> bool:
        """Whether one of its arguments is known."""
        return any(
            _is_given(leaf, value, known, inputs)
            for leaf, value in zip(self.leaves, self.values, strict=True)
        )

    def writes_part(self) -> bool:
        """Whether it writes to a view, which changes the whole tensor."""
        return isinstance(self.result, View) and any(self.result is leaf for leaf in self.leaves)

    def again(self, known: Any, inputs: Any) -> None:
        """Repeat the call with the known tensors as arguments; results that are inputs are not replaced."""
        leaves = [
            known[id(leaf)]
            if _is_given(leaf, value, known, inputs)
            else leaf
            if value is None
            else torch_view(value)
            for leaf, value in zip(self.leaves, self.values, strict=True)
        ]
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        with torchax.default_env().override_property(prng=self.key), host_random.repeating_noise(self.drawn):
            self._update_known(known, inputs, self.function(*args, **kwargs))

    def _update_known(self, known: Any, inputs: Any, result: Any) -> None:
        for old, new in zip(pytree.tree_leaves(self.result), pytree.tree_leaves(result), strict=False):
            if isinstance(old, torch.Tensor) and id(old) not in inputs:
                known[id(old)] = new


class _Gradients(_Call):
    """A call of `torch.autograd.grad`, which is repeated from the calls that were recorded before it."""

    def again(self, known: Any, inputs: Any) -> None:
        args, kwargs = pytree.tree_unflatten(self.leaves, self.tree)
        at = {id(leaf): value for leaf, value in zip(self.leaves, self.values, strict=True)}
        self._update_known(known, inputs, self.function(*args, **kwargs, _known=known, _at=at))


class Recorder(TorchFunctionMode):
    """Records the operations on torchax tensors, and differentiates them for `torch.autograd.grad`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[_Call] = []
        #: Results computed without gradients.
        self.without_graph: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.autograd.grad:
            if not _is_known(self.calls, *args, **(kwargs or {})):
                if not torch.is_grad_enabled() and id(_as_list(args[0])[0]) in self.without_graph:
                    raise RuntimeError(_NO_GRAPH)  # programs that evaluate with a training function expect it
                # An enclosing recorder knows the path to the outputs, if any does.
                return func(*args, **(kwargs or {}))
            return self.record(functools.partial(self.gradients, list(self.calls)), args, kwargs, _Gradients)
        if is_backward(func) and arrays.is_traced(_as_list(args[0])[0]):
            return self.backward(*args, **(kwargs or {}))
        if func in _WITHOUT_GRADIENT:
            return func(*args, **(kwargs or {}))
        if not torch.is_grad_enabled():
            result = func(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor) and all(result is not arg for arg in args):
                self.without_graph[id(result)] = result
            return result
        return self.record(func, args, kwargs)

    def record(self, func: Any, args: Any, kwargs: Any = None, kind: Any = _Call) -> Any:
        """Call a function and record the call."""
        call = kind(func, args, kwargs)
        if any(isinstance(leaf, (torchax.tensor.Tensor, View)) for leaf in pytree.tree_leaves(call.result)):
            self.calls.append(call)
        return call.result

    def backward(
        self,
        tensors: Any,
        gradient: Any = None,
        retain_graph: Any = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """`backward()`: adds the gradients to the leaves that were created in the function."""
        tensors = _as_list(tensors)
        leaves = [one for one in _leaves(self.calls, inputs) if _leads(self.calls, [one], tensors)]
        if not leaves:
            return
        given = None if gradient is None else _as_list(gradient)
        compute = functools.partial(self.gradients, list(self.calls))
        options = {"grad_outputs": given, "create_graph": create_graph}
        for leaf, found in zip(
            leaves, self.record(compute, (tensors, leaves), options, _Gradients), strict=False
        ):
            with torch.no_grad():
                leaf.grad = found if leaf.grad is None else leaf.grad + found
        # Later changes of the leaves in place are not part of the path to the outputs.
        if not retain_graph:
            self.calls = [call for call, leads in _following(self.calls, leaves) if not leads]

    @staticmethod
    def gradients(
        calls: Any,
        outputs: Any,
        inputs: Any,
        grad_outputs: Any = None,
        retain_graph: Any = None,  # noqa: ARG004 # torch's; what is recorded stays
        create_graph: bool = False,
        *,
        _known: Any = None,
        _at: Any = None,
        **options: Any,
    ) -> Any:
        """The gradients, by the calls that led to the outputs; `_known` replaces tensors of values `_at`."""
        before = _known or {}
        if options.get("is_grads_batched"):
            raise NotImplementedError(
                "`torch.autograd.grad` with `is_grads_batched=True` is not supported on torchax; call it "
                "in a loop"
            )
        outputs, inputs = _as_list(outputs), _as_list(inputs)
        calls = _behind(calls, outputs)
        as_they_are = {**_values(inputs), **{id(one): _at[id(one)] for one in inputs if _at}}

        def compute(values: Any) -> Any:
            given = {id(tensor): torch_view(value) for tensor, value in zip(inputs, values, strict=True)}
            known = {**before, **given}
            for call in calls:
                if call.depends_on(known, as_they_are):
                    call.again(known, as_they_are)
            return [_value(known.get(id(tensor), tensor)) for tensor in outputs]

        at = [_value(before.get(id(tensor), tensor)) for tensor in inputs]
        results, pullback = jax.vjp(compute, at)
        wanted = _as_list(grad_outputs) if grad_outputs is not None else [None] * len(outputs)
        wanted = [
            jax.numpy.ones_like(result)
            if one is None
            else _value(before.get(id(one), one)).astype(result.dtype)
            for one, result in zip(wanted, results, strict=False)
        ]
        (found,) = map(conjugated, pullback(conjugated(wanted)))
        if not create_graph:
            found = [jax.lax.stop_gradient(value) for value in found]
        return tuple(torch_view(value) for value in found)


def is_backward(func: Any) -> bool:
    """Whether a function is `Tensor.backward` or `torch.autograd.backward`, wrapped or not."""
    return func.__name__ == "backward" and func.__module__ in ("torch._tensor", "torch.autograd")


def _leaves(calls: Any, inputs: Any) -> Any:
    """The tensors for which a function requested gradients itself."""
    leaves = [leaf for call in calls for leaf in call.leaves] if inputs is None else _as_list(inputs)
    kinds = torchax.tensor.Tensor, View
    found = {
        id(one): one for one in leaves if isinstance(one, kinds) and not isinstance(one, torch.nn.Parameter)
    }
    with DisableTorchFunction():
        return [one for one in found.values() if one.requires_grad and one.is_leaf]


def _is_known(
    calls: Any, outputs: Any, inputs: Any, *_args: Any, allow_unused: Any = None, **_options: Any
) -> bool:
    """Whether calls lead from the inputs to the outputs; with `allow_unused` they need not."""
    return bool(allow_unused) or _leads(calls, _as_list(inputs), _as_list(outputs))


def _behind(calls: Any, outputs: Any) -> Any:
    """The calls that contribute to the outputs, without earlier iterations of a loop on the same inputs."""
    needed, found = set(map(id, outputs)), []
    for call in reversed(calls):
        made = [leaf for leaf in pytree.tree_leaves(call.result) if isinstance(leaf, torch.Tensor)]
        if call.writes_part() or not needed.isdisjoint(map(id, made)):
            found.append(call)
            needed.update(map(id, call.leaves))
    return found[::-1]


def _leads(calls: Any, inputs: Any, outputs: Any) -> bool:
    """Whether calls lead from one of the inputs to one of the outputs."""
    known = {
        id(leaf)
        for call, leads in _following(calls, inputs)
        if leads
        for leaf in pytree.tree_leaves(call.result)
    }
    return not known.union(map(id, inputs)).isdisjoint(map(id, outputs))


def _following(calls: Any, inputs: Any) -> Iterator[Any]:
    """Calls, each with whether it depends on the inputs."""
    known, as_they_are = set(map(id, inputs)), _values(inputs)
    for call in calls:
        leads = call.depends_on(known, as_they_are)
        if leads:
            known.update(map(id, pytree.tree_leaves(call.result)))
        yield call, leads


def _as_list(tensors: Any) -> Any:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _values(inputs: Any) -> Any:
    """The arrays of the inputs, by the `id` of the tensor."""
    return {id(one): _value(one) for one in inputs}


def _is_given(leaf: Any, value: Any, known: Any, inputs: Any) -> bool:
    """Whether an argument of a call is known; an input only if it was not written to since."""
    now = inputs.get(id(leaf))
    return id(leaf) in known and (now is None or now is value or isinstance(leaf, View))


def _value(leaf: Any) -> Any:
    if isinstance(leaf, View):
        leaf = leaf.torch()
    return leaf.jax() if isinstance(leaf, torchax.tensor.Tensor) else None


_WHY = "No torch function mode records torchax's own method; PyTorch's does the same."
patch(
    "torchax.tensor:Tensor.flatten",
    why=_WHY,
    upstream=TORCHAX + "tensor.py",
)(torch.Tensor.flatten)
patch(
    "torchax.tensor:Tensor.type_as",
    why=_WHY,
    upstream=TORCHAX + "tensor.py",
)(torch.Tensor.type_as)
