"""The decorator `@differentiable`: JAX compiles a function and its gradients for `loss.backward()`."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from typing import Self

    from .compiled_function import CompiledFunction

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class DifferentiableFunction(Generic[_Parameters, _Result]):
    """A function that is decorated with `@differentiable`."""

    def __init__(self, function: Callable[_Parameters, _Result], *, compiled: bool = True) -> None:
        if isinstance(function, classmethod) or not callable(function):
            raise TypeError(f"`@differentiable` decorates functions, not {type(function).__name__}")
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError("`@differentiable` cannot decorate `async` functions and generators")
        functools.update_wrapper(self, function)
        self.function = function
        self._is_compiled = compiled
        self._made: CompiledFunction | None = None

    @property
    def compiled_function(self) -> CompiledFunction:
        """The function with its compiled versions, which is made when it is called for the first time."""
        if self._made is None:
            from .compiled_function import CompiledFunction

            self._made = CompiledFunction(self.function, compiled=self._is_compiled)
        return self._made

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # as functions are

    def __reduce__(self) -> str:
        return str(getattr(self, "__qualname__", ""))  # by name, as functions are

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: Any = None) -> Callable[..., _Result]: ...

    def __get__(self, instance: object, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        """Call the function: as it is, or the compiled version where the program uses torchax."""
        if "torchax" not in sys.modules:  # as in a program that runs on CUDA
            return self.function(*args, **kwargs)
        result: _Result = (self._made or self.compiled_function)(*args, **kwargs)
        return result


@overload
def differentiable(
    function: Callable[_Parameters, _Result], *, compiled: bool = True
) -> DifferentiableFunction[_Parameters, _Result]: ...


@overload
def differentiable(
    function: None = None, *, compiled: bool = True
) -> Callable[[Callable[_Parameters, _Result]], DifferentiableFunction[_Parameters, _Result]]: ...


def differentiable(function: Callable[..., Any] | None = None, *, compiled: bool = True) -> Any:
    """Decorator: JAX compiles the function and its gradients, and PyTorch's autograd uses them.

    It decorates functions and methods::

        @differentiable
        def compute_loss(model, data, target):
            return F.cross_entropy(model(data), target)

        compute_loss(model, data, target).backward()

    JAX traces the function at the first call, and again when shapes, dtypes, modes or Python values that it
    uses change.
    Gradients go to tensor arguments and to the parameters of all modules that the function can access,
    through its arguments, globals or closure.
    If none of these tensors is on torchax, the function is called as it is.

    If the function needs the values of its tensors in a way that JAX cannot trace, it runs *call by call*:
    its statements run one by one, and the modules and functions that it calls are compiled one by one.
    This is slower, and gives the same results.

    Args:
        function: the function or method.
        compiled: `@differentiable(compiled=False)` makes the function run call by call from the first call
            on.

    Returns:
        A callable with the same arguments and results. Floating-point tensors among the results are connected
        to the autograd graph.

    Warns:
        UserWarning: the function runs call by call from now on; the message has the reason.

    Raises:
        RuntimeError: `torch.autograd.grad` is called in the function, and its outputs do not depend on its
            inputs within the function; or tensors are on torchax, and `enable()` was not called.

    Example:
        >>> import torch, torchax_compat
        >>> torchax_compat.enable()
        >>> @torchax_compat.differentiable
        ... def compute_loss(weight, x):
        ...     return (x @ weight).square().mean()
        >>> weight = torch.ones(2, 1, device="jax", requires_grad=True)
        >>> compute_loss(weight, torch.ones(3, 2, device="jax")).backward()
        >>> weight.grad.flatten().tolist()
        [4.0, 4.0]
    """
    if function is None:
        return functools.partial(DifferentiableFunction, compiled=compiled)
    return DifferentiableFunction(function, compiled=compiled)
