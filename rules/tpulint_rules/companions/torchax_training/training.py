"""Training with torch's optimizers on torchax: JAX takes the gradients, `backward()` hands them on.

Torch's autograd does not see through all that torchax computes: a plain `loss.backward()` loses gradients.
A function marked `@differentiable` is one node of torch's graph instead: JAX compiles it, once for each
combination of shapes and modes, and computes its gradients with regard to the parameters of all modules
that it uses, and to its arguments.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import types
import warnings
import weakref
from collections.abc import Iterator

import jax
import jax.extend.core
import numpy
import torch
import torchax
from torch.nn.modules import batchnorm, instancenorm
from torch.utils import _pytree as pytree
from torchax.tensor import Tensor

from . import attributes, calls, functions, tracing

for _name in ("dispatch", "derivatives", "items", "loading", "missing", "moving", "recurrent", "sparse"):
    with contextlib.suppress(ImportError, AttributeError):  # other versions of torchax may not be so made
        importlib.import_module(f".{_name}", __package__)

#: Optimizers that are compiled anew for each learning rate are so for no more than these.
MOST_RATES = 4
#: Taken for a rate of zero, as warm-ups begin with: torch divides by the rate if that is a tensor.
NEARLY_NOTHING = 1e-30
#: What tells that a computation needs the value of a tensor, and that an optimizer does.
_NEEDS_VALUE = (jax.errors.JAXTypeError, jax.errors.NonConcreteBooleanIndexError)
_NOT_TRACEABLE = (*_NEEDS_VALUE, TypeError)


class differentiable:
    """A function of tensors that uses modules; as a decorator of functions and methods."""

    def __new__(cls, function=None, **options):
        return super().__new__(cls) if function is not None else functools.partial(cls, **options)

    def __init__(self, function, *, compiled=True):
        functools.update_wrapper(self, function)
        self.function = function
        self.known, self.plain, self.apart = tracing.Known(), set(), calls.Apart()
        self.is_compiled = compiled

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args, **kwargs):
        leaves, tree = pytree.tree_flatten((args, kwargs))
        modules = functions.modules_of(self.function, leaves)
        hooks = [hook for module in modules for hook in attributes.hooks_of(module)]
        if hooks:
            args, kwargs = attributes.with_containers(hooks, args, kwargs)
            leaves, tree = pytree.tree_flatten((args, kwargs))
        parameters = tracing.unique(tensor for module in modules for tensor in module._parameters.values())
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if not _computes_on_torchax(parameters + tensors):
            args, kwargs = attributes.without_containers(args, kwargs)
            return self.function(*args, **kwargs)
        places = []
        if self.is_compiled:
            leaves, places = self.known.varying.taken(leaves, tree)
            tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        given = [functions.on_torchax(tensor) for tensor in parameters + tensors]
        with torch._C.DisableTorchFunction():
            with_gradient = [torch.is_grad_enabled() and tensor.requires_grad for tensor in given]
        plain = (
            tree,
            tuple(None if isinstance(leaf, torch.Tensor) else tracing.identity(leaf) for leaf in leaves),
            tuple(id(tensor) for tensor in parameters),
            tuple(with_gradient),
            tuple(module.training for module in modules),
            tuple(map(id, hooks)),
            tracing.modes(),
        )
        if any(isinstance(leaf, (Iterator, torch.utils.data.DataLoader)) for leaf in leaves):
            self.is_compiled = False  # what they give is another each time
        self.plain.add(plain)
        if self.is_compiled and len(self.plain) > tracing.MOST_VERSIONS:
            self._stop_compiling(f"it was called with {tracing.MOST_VERSIONS} combinations of plain values")
        key = (plain, *((one.shape, one.dtype) for one in tensors))
        version = self._fitting(key)
        if version is None:
            version = _Version(self, leaves, tree, modules, parameters, with_gradient)
            version.in_place_of = places
            self.known.add(key, version)
        before = functions.states_of_host(version.generators) if self.is_compiled and version.is_new else None
        try:
            result = version(given, self.is_compiled)
        except Exception as error:
            if before is not None:
                functions.draw_again(before)  # what tracing drew in vain
            if places and version.is_new:  # it may need them as they are
                self.known.varying.is_on = False
                return self(*args, **kwargs)
            if not self.is_compiled or not isinstance(error, _NEEDS_VALUE):
                raise
            self._stop_compiling(_first_line(error))
            return version(given, self.is_compiled)
        if self.is_compiled and version.drew_on_host:
            self._stop_compiling("it draws random numbers on the host, which tracing would draw but once")
        return result

    def _fitting(self, key):
        if self.is_compiled:
            try:
                return self.known.fitting(key)
            except tracing.TooManyStates as error:
                self._stop_compiling(error)
        elif len(self.known.traces) > tracing.MOST_VERSIONS:
            self.known.traces.clear()
        return next(iter(self.known.traces.get(key, ())), None)

    def _stop_compiling(self, why):
        self.is_compiled = False
        warnings.warn(f"`{self.__name__}` is compiled call by call, not as a whole: {why}", stacklevel=3)


class _Version(tracing.Trace):
    """A function as it is called with some arguments, whose gradients JAX takes."""

    def __init__(self, owner, leaves, tree, modules, parameters, with_gradient):
        tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        places = {place: k for k, place in enumerate(tensors)}
        objects, states = attributes.objects(modules, leaves), owner.known.states.values()
        super().__init__(owner.function, leaves, tree, places, modules, parameters, objects, states)
        self.with_gradient, self.apart = with_gradient, owner.apart
        self.is_new = True
        self.reached = None  # which of those with gradients the outputs' gradients come to
        self.forward = jax.jit(self._forward)
        self.backward = jax.jit(_pulled, static_argnums=2)

    def __call__(self, given, is_compiled):
        if is_compiled:
            with calls.running(None):
                made = _Node.apply(self, (self.forward, self.backward), *self._linked(given))
        else:
            with self.apart.compiled(self.modules, self.objects):
                made = _Node.apply(self, (self._forward_of_values, _pulled), *self._linked(given))
        return self._result(made, given)

    def _linked(self, given):
        """What is given, without the graphs behind inputs that no gradient comes to, such as earlier steps."""
        if self.reached is None:
            return given
        reached = iter(self.reached)
        cut = [wanted and not next(reached) for wanted in self.with_gradient]
        return [tensor.detach() if lost else tensor for tensor, lost in zip(given, cut)]

    def compute(self, forward, given):
        """Outputs and pullback; buffers, parameters that it changes, and the random state are written back."""
        buffers = tracing.buffers_of(self.modules).values()
        values = [tensor.jax() for tensor in given]
        outputs, pullback, (rest, *changes) = forward(
            [value for value, wanted in zip(values, self.with_gradient) if wanted],
            [value for value, wanted in zip(values, self.with_gradient) if not wanted],
            [buffer.jax() for buffer in buffers],
            torchax.default_env().prng_key,
            attributes.values(self.states),
        )
        self.is_new = False
        self.leave(given, buffers, *changes)
        if self.reached is None and any(self.with_gradient[len(self.parameters) :]):
            self.reached = _reached(pullback, outputs)
        return outputs, rest, pullback

    def _forward(self, learned, *others, is_traced=True):
        return jax.vjp(lambda learned: self._traced(learned, *others, is_traced), learned, has_aux=True)

    def _forward_of_values(self, *given):
        return self._forward(*given, is_traced=False)

    def _traced(self, learned, fixed, buffers, random, states, is_traced):
        learned, fixed = iter(learned), iter(fixed)
        values = [next(learned) if wanted else next(fixed) for wanted in self.with_gradient]
        tensors, *changes = self.run(values, buffers, random, states, is_traced=is_traced)
        self.is_float = [jax.numpy.issubdtype(value.dtype, jax.numpy.inexact) for value in tensors]
        floats = [value for value, is_float in zip(tensors, self.is_float) if is_float]
        rest = [value for value, is_float in zip(tensors, self.is_float) if not is_float]
        return floats, (rest, *changes)

    def around(self):
        return functions.entered(), torch.enable_grad(), calls.Calls()

    def taken(self, result, inputs, arguments):
        """The tensors of a result; those that it was given, of which gradients are wanted, stay themselves."""
        places = {id(tensor): i for i, tensor in enumerate([*self.parameters, *inputs])}
        self.handed_back = [places.get(id(leaf)) for leaf in pytree.tree_leaves(result)]
        return super().taken(result, inputs, arguments)

    def _result(self, tensors, given):
        tensors = iter(tensors)
        leaves = [next(tensors) if wanted else leaf for leaf, wanted in zip(self.outputs, self.is_tensor)]
        with torch._C.DisableTorchFunction():
            for i, place in enumerate(self.handed_back):
                if place is not None and given[place].requires_grad and given[place].is_leaf:
                    leaves[i] = given[place]
        return pytree.tree_unflatten(leaves, self.shape)


def _reached(pullback, outputs):
    """For each result of a pullback whether it depends on the gradients that it is given."""
    program = jax.make_jaxpr(pullback)(outputs).jaxpr
    depending = set(program.invars)
    for equation in program.eqns:
        if any(isinstance(v, jax.extend.core.Var) and v in depending for v in equation.invars):
            depending.update(equation.outvars)
    return [isinstance(v, jax.extend.core.Var) and v in depending for v in program.outvars]


class _Node(torch.autograd.Function):
    @staticmethod
    def forward(ctx, version, run, *given):
        forward, ctx.backward_function = run
        floats, rest, ctx.pullback = version.compute(forward, given)
        ctx.version, ctx.kinds = version, tuple(value.aval for value in floats)
        floats, rest = iter(map(functions.tensor, floats)), list(map(functions.tensor, rest))
        ctx.mark_non_differentiable(*rest)
        ctx.set_materialize_grads(False)
        others = iter(rest)
        return tuple(next(floats) if is_float else next(others) for is_float in version.is_float)

    @staticmethod
    def backward(ctx, *gradients):
        floats = [g for g, is_float in zip(gradients, ctx.version.is_float) if is_float]
        values = [None if g is None else functions.on_torchax(g).jax() for g in floats]
        try:
            (found,) = ctx.backward_function(ctx.pullback, values, ctx.kinds)
        except jax.errors.ConcretizationTypeError as error:  # in the `backward` of a custom function
            warnings.warn(f"gradients are taken without being compiled: {_first_line(error)}", stacklevel=1)
            ctx.version.backward = _pulled
            (found,) = _pulled(ctx.pullback, values, ctx.kinds)
        found = map(functions.tensor, found)
        return None, None, *(next(found) if wanted else None for wanted in ctx.version.with_gradient)


def _first_line(error):
    return str(error).splitlines()[0]


def _pulled(pullback, gradients, kinds):
    """The gradients of what was given from those of the outputs, of which None means zero."""
    gradients = [jax.numpy.zeros(k.shape, k.dtype) if g is None else g for g, k in zip(gradients, kinds)]
    return pullback(gradients)


def compiled(optimizer):
    """The optimizer, with a `step` that JAX compiles; its `lr` may differ from step to step."""
    for group in optimizer.param_groups:  # torchax lacks what these are made of
        group.update({name: False for name in ("foreach", "fused") if name in group})
    plain, plain_zero_grad = optimizer.step, optimizer.zero_grad
    versions = {}
    ways = [False, True]  # some optimizers want their rate as a number, and are compiled for each one

    def zero_grad(self, set_to_none=True):
        if not set_to_none:
            return plain_zero_grad(set_to_none)
        with torch._C.DisableTorchFunction():  # which torch would ask of each gradient
            for p in (p for group in self.param_groups for p in group["params"]):
                p.grad = None

    def step(self, closure=None):
        with torch._C.DisableTorchFunction():
            parameters = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        hooks = self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks
        if closure is not None or hooks or not _computes_on_torchax(parameters):
            return plain(closure)
        is_first = any(p not in self.state for p in parameters)
        while ways and len(versions) <= (MOST_RATES if ways[0] else tracing.MOST_VERSIONS):
            try:
                return _compiled_step(self, plain, parameters, versions, rates_are_plain=ways[0])
            except Exception as error:
                versions.clear()
                if is_first:
                    break  # what cannot be made while tracing is made as ever
                if not isinstance(error, _NOT_TRACEABLE):
                    raise
                ways.pop(0)
                if not ways:
                    name, why = type(self).__name__, _first_line(error)
                    warnings.warn(f"`{name}.step` runs without being compiled: {why}", stacklevel=2)
        return plain()

    optimizer.step = types.MethodType(step, optimizer)
    if type(optimizer).zero_grad is torch.optim.Optimizer.zero_grad:
        optimizer.zero_grad = types.MethodType(zero_grad, optimizer)
    return optimizer


def _compiled_step(optimizer, plain, parameters, versions, *, rates_are_plain):
    groups = optimizer.param_groups
    rates = [group["lr"] for group in groups]
    others = tuple(
        tuple(
            (name, tracing.identity(value)) for name, value in group.items() if name not in ("params", "lr")
        )
        for group in groups
    )
    key = (tuple(id(p) for p in parameters), others, tuple(rates) if rates_are_plain else None)
    if key not in versions:
        traced = functools.partial(_traced_step, optimizer, plain, parameters, rates_are_plain)
        versions[key] = jax.jit(traced)
    with torch._C.DisableTorchFunction():
        gradients = [p.grad.jax() for p in parameters]
    values, state = versions[key](
        [p.jax() for p in parameters],
        gradients,
        [_tensors_of(optimizer.state.get(p, {})) for p in parameters],
        [numpy.float32(rate or NEARLY_NOTHING) for rate in rates],
    )
    for p, value, entry in zip(parameters, values, state):
        functions.put(p, value)
        kept = optimizer.state[p]
        for name, new in entry.items():
            if isinstance(kept.get(name), Tensor):
                functions.put(kept[name], new)
            else:
                kept[name] = functions.tensor(new)


def _traced_step(optimizer, plain, parameters, rates_are_plain, values, gradients, state, rates):
    with contextlib.ExitStack() as stack:
        tensors = [*parameters, *[p.grad for p in parameters]]
        for tensor, value in zip(tensors, [*values, *gradients]):
            stack.callback(functions.put, tensor, tensor.jax())
            functions.put(tensor, value)
        for p, entry in zip(parameters, state):
            if p in optimizer.state:
                stack.callback(optimizer.state.__setitem__, p, optimizer.state[p])
                traced = {name: functions.tensor(value) for name, value in entry.items()}
                optimizer.state[p] = {**optimizer.state[p], **traced}
            else:  # the first step makes the state
                stack.callback(optimizer.state.pop, p, None)
        for group, rate in zip(optimizer.param_groups, rates):
            # Torch reads no number from the rate and the count of steps if they are capturable tensors.
            traced = {"capturable": True, "foreach": False, "fused": False}
            if not rates_are_plain:
                traced["lr"] = functions.tensor(rate).requires_grad_()
            traced = {name: value for name, value in traced.items() if name in group}
            stack.callback(group.update, {name: group[name] for name in traced})
            group.update(traced)
        stack.enter_context(functions.entered())
        plain()
        return [p.jax() for p in parameters], [_tensors_of(optimizer.state.get(p, {})) for p in parameters]


def _tensors_of(entry):
    return {name: functions.on_torchax(v).jax() for name, v in entry.items() if isinstance(v, torch.Tensor)}


def _computes_on_torchax(tensors):
    on = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
    return bool(on) and not any(isinstance(tensor.jax(), jax.core.Tracer) for tensor in on)


def _with_statistics(forward):
    """The forward of a normalisation, with its running statistics, which torchax leaves as they are."""

    @functools.wraps(forward)
    def run(module, x):
        is_there = isinstance(x, (Tensor, torchax.view.View))
        if not (is_there and module.training and module.track_running_stats):
            return forward(module, x)
        momentum = module.momentum
        if _before_hooks.pop(module, module.running_mean.jax()) is module.running_mean.jax():
            _keep_statistics(module, x, momentum)  # else a hook of the program's own does
        try:
            module.momentum = momentum or 0.0  # None makes torch ask for the count of batches
            return forward(module, x)
        finally:
            module.momentum = momentum

    return run


def _keep_statistics(module, x, momentum):
    with torch.no_grad():
        x = x.float()
        over = [dim for dim in range(x.ndim) if dim != 1]
        step = 1 / (module.num_batches_tracked + 1) if momentum is None else momentum
        module.running_mean.copy_(torch.lerp(module.running_mean, x.mean(over), step))
        module.running_var.copy_(torch.lerp(module.running_var, x.var(over), step))


_before_hooks = weakref.WeakKeyDictionary()
_call = torch.nn.Module.__call__


def _called(module, *args, **kwargs):
    """A call of a normalisation, which notes the mean that its hooks find."""
    if module._forward_pre_hooks and isinstance(module.running_mean, Tensor):
        _before_hooks[module] = module.running_mean.jax()
    return _call(module, *args, **kwargs)


batchnorm._NormBase.__call__ = _called
for _kind in (batchnorm._BatchNorm, batchnorm.SyncBatchNorm, instancenorm._InstanceNorm):
    _kind.forward = _with_statistics(_kind.forward)
