"""A function whose gradients JAX computes, as one node of PyTorch's autograd graph.

PyTorch's autograd does not see all that torchax computes: after a plain `loss.backward()`, gradients are
missing.
JAX compiles the function once for each combination of shapes and modes, and computes its gradients with
respect to its arguments and the parameters of all modules that it uses.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..adapters.torch_internals import pytree
from ..jit import (
    active_programs,
    argument_copies,
    attribute_owners,
    contents,
    output_containers,
    reachable_modules,
    recompilations,
    tensor_objects,
    trace,
)
from ..ranks import local_tensor
from ..tensor import arrays, lazy_modules, placements
from . import answered_calls, frozen_parameters, higher_order, recording, repeated_calls, specialization


class CompiledFunction:
    """The function under `@differentiable`, with its compiled versions."""

    def __init__(self, function: Callable[..., Any], *, compiled: bool = True) -> None:
        self.function, self.name = function, getattr(function, "__name__", repr(function))
        self.known = trace.Traces(takes_numbers=True)
        self.plain: set[Any] = set()
        self.programs = active_programs.Programs()
        self.compilations = recompilations.Compilations(function)
        self.hits = 0  # calls with plain values that occurred before
        self.records = tensor_objects.Records(is_on=compiled)
        self.calls = answered_calls.AnsweredCalls(self)
        self.is_compiled, self.is_recorded = compiled, False
        self.repeated = repeated_calls.RepeatedCalls()
        self.mapped: Any = None  # the function of the tensors of all ranks
        self.thawed: set[int] = set()  # the `id`s of parameters whose `requires_grad` it enables

    def __call__(self, *plain_args: Any, **plain_kwargs: Any) -> Any:
        """Call the function: the compiled version for these arguments, which is made if there is none."""
        placements.restore()
        repeated = self.repeated.version(plain_args, plain_kwargs)
        if repeated is not None:
            version, given, values = repeated
            self.hits += 1
            return version.repeated(given, values)[0]
        if local_tensor.are_among((plain_args, plain_kwargs)):
            return local_tensor.CALLS["function"](self, plain_args, plain_kwargs)
        args, kwargs = self.records.taken(plain_args, plain_kwargs)
        leaves, tree = pytree.tree_flatten((args, kwargs))
        read = contents.Contents()
        modules, others = reachable_modules.modules_and_tensors(self.function, leaves, read)
        hooks = attribute_owners.hooks_of_all(modules)
        if hooks:
            args, kwargs = attribute_owners.with_containers(hooks, args, kwargs)
            leaves, tree = pytree.tree_flatten((args, kwargs))
        parameters = trace.unique([*trace.parameters_on_device(modules), *others])
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if not arrays.computes_on_torchax(parameters + tensors):
            return self.function(*plain_args, **plain_kwargs)
        places = []
        if self.is_compiled:
            leaves, places = self.known.varying.taken(leaves, tree, has_texts=True)
        tensors, numbers = trace.numbered(leaves, parameters)
        held = parameters + tensors
        given = [arrays.on_torchax(tensor) for tensor in held]
        copies = argument_copies.copies(held, given)
        with_gradient = frozen_parameters.wants_gradients(given, self.thawed)
        plain = (
            tree,
            tuple(None if isinstance(leaf, torch.Tensor) else trace.identity(leaf) for leaf in leaves),
            tuple(numbers.values()),
            tuple(id(tensor) for tensor in parameters),
            tuple(with_gradient),
            tuple((trace.identity(module), module.training, *trace.methods(module)) for module in modules),
            tuple(map(id, hooks)),
            trace.modes(),
        )
        if any(isinstance(leaf, (Iterator, torch.utils.data.DataLoader)) for leaf in leaves):
            self.is_compiled = False  # they yield other batches each time
        self.hits += plain in self.plain
        self.plain.add(plain)
        most = trace.MOST_VERSIONS if self.hits > len(self.plain) else trace.MOST_NEW_VERSIONS
        if self.is_compiled and len(self.plain) > most:
            self.stop_compiling(
                f"it was called with {most} combinations of non-tensor arguments, modules and modes; pass "
                "arrays and lists that change as tensors, and create modules once"
            )
        key = (plain, *((one.shape, one.dtype) for one in tensors))
        note = functools.partial(self.compilations.note, plain, args, kwargs)
        make = functools.partial(
            self.specialize, self, leaves, tree, modules, parameters, with_gradient, places
        )
        try:
            result, changed = self.calls.result(key, make, given, note)
        except answered_calls.PlainValueNeededError:
            if not self.known.refuse():
                self.known.varying.is_on = False
            return self(*plain_args, **plain_kwargs)
        except higher_order.NotRecordedError as error:
            if self.is_recorded:
                why = (
                    "`torch.autograd.grad` does not find how its outputs depend on its inputs: compute the "
                    "outputs in the decorated function that calls it"
                )
                raise RuntimeError(why) from error
            self.function, self.is_recorded = recording.higher_order(self.function), True
            self.known.traces.clear()
            return self(*plain_args, **plain_kwargs)
        except tensor_objects.ObjectNeededError:
            self.records.is_on = False
            return self(*plain_args, **plain_kwargs)
        except lazy_modules.AwaitedError as error:
            error.infer()
            return self(*plain_args, **plain_kwargs)
        except frozen_parameters.UnfrozenError as error:
            self.thawed.add(id(error.parameter))
            return self(*plain_args, **plain_kwargs)
        if self.is_compiled and self.calls.used is not None and not (hooks or copies):
            self.repeated.keep(self.calls.used, leaves, (plain_args, plain_kwargs), read)
        argument_copies.write_back(copies)
        output_containers.apply(changed, (plain_args, plain_kwargs))
        return output_containers.with_arguments(result, (plain_args, plain_kwargs))

    def specialize(self, *args: Any) -> Any:
        """A compiled version for some arguments."""
        return specialization.Specialization(*args)

    def stop_compiling(self, why: str) -> None:
        """Run call by call from now on, and warn that this is slower."""
        self.is_compiled = False
        warnings.warn(
            f"`{self.name}` runs call by call: the modules and functions that it calls are compiled one "
            f"by one, not `{self.name}` as a whole (slower, same results). Reason: {why}",
            stacklevel=3,
        )
