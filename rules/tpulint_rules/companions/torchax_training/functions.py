"""What JAX differentiates: the modules that a function reaches, and custom `torch.autograd.Function`s.

`Function.apply` is JAX's to differentiate where its arguments are: it computes by `forward`, and takes the
gradients from `backward`, which JAX compiles.
Copies of this file, and of those beside it, that lie in other packages of the program are this one.
A `backward` that computes the forward pass anew, as checkpointing does, is not called: JAX differentiates
the `forward`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import operator
import pickle
import random
import sys
import types
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

import jax
import numpy
import torch
import torchax
from torch.autograd.function import FunctionCtx, _is_setup_context_defined
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils import _pytree as pytree
from torchax.tensor import Tensor

#: Of longer lists only the first items are asked whether they are modules.
MOST_ITEMS = 1000
#: Not looked into for modules.
_WITHOUT_MODULES = {bool, int, float, str, type(None), type, types.ModuleType, types.BuiltinFunctionType}
_WITHOUT_MODULES |= {Tensor, torch.Tensor, torch.dtype, torch.device}
#: What a module holds as such.
INTERNAL = frozenset(vars(torch.nn.Module()))
_LIBRARIES = {"torch", "torchax", "jax", "numpy"}
#: What a `backward` calls that computes the forward pass anew, for torch's autograd to differentiate.
_RECOMPUTES = {"enable_grad", "set_grad_enabled"}


class _Once(MetaPathFinder, Loader):
    """Gives this folder in the place of its copies, which would change torch once more."""

    def find_spec(self, fullname, path=None, target=None):
        return ModuleSpec(fullname, self) if self._first(fullname) is not None else None

    def create_module(self, spec):
        module = self._first(spec.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self.spec  # it is executed already

    def _first(self, fullname):
        _, found, within = f".{fullname}.".partition(f".{__package__.rpartition('.')[2]}.")
        first = f"{__package__}.{within}".strip(".")
        return sys.modules.get(first) if found and fullname != first else None


sys.meta_path.insert(0, _Once())


class NoGradStops(TorchFunctionMode):
    """Lets `torch.no_grad()` mean to JAX what it means to torch.

    What is written in place there keeps the gradient that it had, as if it had had these values before.
    What the function is given is on the device, and so goes there what of the host is joined to it.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        try:
            with unseen_writes(args, kwargs):
                result = func(*args, **(kwargs or {}))
        except AssertionError:
            leaves, tree = pytree.tree_flatten((args, kwargs or {}))
            moved = [on_torchax(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            if all(map(operator.is_, moved, leaves)):
                raise
            args, kwargs = pytree.tree_unflatten(moved, tree)
            with unseen_writes(args, kwargs):
                result = func(*args, **kwargs)
        if not torch.is_grad_enabled():
            given = {id(leaf) for leaf in pytree.tree_leaves((args, kwargs))}
            for leaf in pytree.tree_leaves(result):
                if isinstance(leaf, Tensor) and id(leaf) not in given and _is_traced(leaf):
                    leaf.apply_jax_(jax.lax.stop_gradient)
        return result


@contextlib.contextmanager
def unseen_writes(*arguments):
    """Within `torch.no_grad()`, hide from gradients what is written to tensors."""
    written = [] if torch.is_grad_enabled() else list(_sources(arguments))
    yield
    for tensor, before in written:
        after = tensor.jax()
        if after is not before and isinstance(after, jax.core.Tracer):
            put(tensor, unseen(before, after))


def _sources(arguments):
    """The tensors among arguments, or of which views are, with their arrays."""
    for leaf in pytree.tree_leaves(arguments):
        while isinstance(leaf, torchax.view.View):
            leaf = leaf.parent
        if isinstance(leaf, Tensor):
            yield leaf, leaf.jax()


def unseen(before, after):
    """The array that a write leaves of which gradients know nothing: it has those of the array before."""
    after = jax.lax.stop_gradient(after)
    is_alike = (before.shape, before.dtype) == (after.shape, after.dtype)
    if not is_alike or not jax.numpy.issubdtype(before.dtype, jax.numpy.inexact):
        return after
    return _unseen(before, after)


@jax.custom_jvp
def _unseen(before, after):
    return after


@_unseen.defjvp
def _unseen_gradient(arrays, changes):
    return arrays[1], changes[0]


class NotRecorded(Exception):
    """`torch.autograd.grad` was called where nothing is recorded that led to its outputs."""


def modules_of(function, leaves):
    """The modules that a function can reach by its arguments, globals and closure, with those within them."""
    return reached(function, leaves)[0]


def reached(function, leaves):
    """The modules that a function can reach, and the tensors that are learned but belong to none of them.

    Such tensors are attributes of other objects, such as the temperature of an agent, or globals.
    """
    found, tensors, seen = {}, {}, set()

    def visit(value, depth):
        if type(value) is Tensor:
            tensors[id(value)] = value
            return
        if type(value) in _WITHOUT_MODULES or id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, torch.nn.Module):
            found[id(value)] = value
            for module in value._modules.values():
                visit(module, depth)
            if not type(value).__module__.startswith("torch.nn."):
                held = vars(value)
                for name in held.keys() - INTERNAL:
                    visit(held[name], 0)
        elif isinstance(value, types.MethodType):
            visit(value.__func__, depth)
            visit(value.__self__, depth)
        elif isinstance(value, types.FunctionType):
            if value.__globals__.get("__name__", "").partition(".")[0] not in _LIBRARIES:
                for name in _names(value.__code__):
                    if name in value.__globals__:
                        visit(value.__globals__[name], depth)
            for cell in value.__closure__ or ():
                with contextlib.suppress(ValueError):
                    visit(cell.cell_contents, depth)
        elif _is_wrapper(value):
            visit(value.__wrapped__, depth)
        elif isinstance(value, (torch.utils.data.Dataset, torch.utils.data.DataLoader)):
            return
        elif isinstance(value, (list, tuple, set)):
            for item in itertools.islice(value, MOST_ITEMS):
                visit(item, depth)
        elif isinstance(value, dict):
            for item in itertools.islice(value.values(), MOST_ITEMS):
                visit(item, depth)
        elif (
            depth
            and hasattr(value, "__dict__")
            and not isinstance(value, (type, types.ModuleType, torch.Tensor))
        ):
            for item in list(vars(value).values()):
                visit(item, depth - 1)
            # methods
            for base in type(value).__mro__[:-1]:
                if not base.__module__.startswith(("torch", "builtins")):
                    for item in vars(base).values():
                        if isinstance(item, types.FunctionType) or _is_wrapper(item):
                            visit(item, depth - 1)

    visit(function, 2)
    for leaf in leaves:
        if type(leaf) is not Tensor:
            visit(leaf, 2)
    with torch._C.DisableTorchFunction():
        learned = [one for one in tensors.values() if one.requires_grad and one.is_leaf]
    return list(found.values()), sorted(learned, key=id)


def _is_wrapper(value):
    """Whether a value is an object made of a function, as decorators that are classes make it."""
    return "__wrapped__" in getattr(value, "__dict__", ())


@functools.lru_cache
def _names(code):
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return tuple(dict.fromkeys(itertools.chain(code.co_names, *inner)))


@contextlib.contextmanager
def entered():
    """The torchax environment, left as it was."""
    environment = torchax.default_env()
    before = environment.enabled
    try:
        with environment:
            yield
    finally:
        environment.enabled = before  # which leaving it forgets


def states_of_host(generators=()):
    """What random generators go on from: those of Python, NumPy and torch on the host, and others."""
    drawn = numpy.random.get_state()
    own = [(one, _state(one)) for one in generators]
    return random.getstate(), drawn[1].tobytes(), drawn[2:], torch.get_rng_state().numpy().tobytes(), own


def draw_again(states):
    """Let the generators go on from where they were."""
    of_python, key, rest, of_torch, own = states
    random.setstate(of_python)
    numpy.random.set_state(("MT19937", numpy.frombuffer(key, dtype=numpy.uint32), *rest))
    torch.set_rng_state(torch.frombuffer(bytearray(of_torch), dtype=torch.uint8))
    for generator, state in own:
        match generator:
            case random.Random():
                generator.setstate(state)
            case torch.Generator():
                generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
            case _:
                _bits(generator).state = pickle.loads(state)


def _state(generator):
    match generator:
        case random.Random():
            return generator.getstate()
        case torch.Generator():
            return generator.get_state().numpy().tobytes()
        case _:
            return pickle.dumps(_bits(generator).state)


def _bits(generator):
    """What a generator of NumPy draws from."""
    return (
        generator.bit_generator if isinstance(generator, numpy.random.Generator) else generator._bit_generator
    )


def generators(values):
    """Those of some values that are generators of random numbers."""
    kinds = (numpy.random.Generator, numpy.random.RandomState, random.Random, torch.Generator)
    return list({id(one): one for one in values if type(one) in kinds}.values())


def on_torchax(tensor):
    """A tensor of torchax: itself, what a view shows, or a copy on the device."""
    if isinstance(tensor, torchax.view.View):
        return tensor.torch()
    return tensor if isinstance(tensor, Tensor) else tensor.to("jax")


def tensor(value):
    """A tensor of torchax around an array of JAX."""
    return Tensor(value, torchax.default_env())


def computes_on_torchax(tensors):
    """Whether tensors are on torchax, and none of them is being traced."""
    on = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
    return bool(on) and not any(isinstance(tensor.jax(), jax.core.Tracer) for tensor in on)


def first_line(error):
    """What an error says first."""
    return str(error).splitlines()[0]


def put(tensor, value):
    """Give a tensor of torchax another array."""
    tensor.apply_jax_(lambda _: value)


_apply = torch.autograd.Function.apply.__func__


def _applied(cls, *args, **kwargs):
    """`Function.apply`."""
    if not torch.is_grad_enabled() or not any(map(_is_traced, args)):
        return _apply(cls, *args, **kwargs)
    if _is_setup_context_defined(cls.setup_context):
        bound = inspect.signature(cls.forward).bind(*args, **kwargs)
        bound.apply_defaults()
        args = bound.args
    run = _through if _recomputes(cls.backward) else _called
    for mode in _get_current_function_mode_stack():
        if hasattr(mode, "record"):  # that of `gradients`, for `torch.autograd.grad`
            return mode.record(functools.partial(run, cls), args)
    return run(cls, *args)


torch.autograd.Function.apply = classmethod(_applied)


def _is_traced(value):
    is_there = isinstance(value, (Tensor, torchax.view.View))
    return is_there and isinstance(value.jax(), jax.core.Tracer)


def _is_inexact(value):
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _recomputes(backward):
    return not _RECOMPUTES.isdisjoint(_names(inspect.unwrap(backward).__code__))


class _Context(FunctionCtx):
    """What `forward` leaves for `backward`."""

    to_save = ()
    materialize_grads = True

    @property
    def saved_tensors(self):
        return tuple(self.to_save)


def _forward(cls, ctx, args):
    if not _is_setup_context_defined(cls.setup_context):
        return cls.forward(ctx, *args)
    results = cls.forward(*args)
    cls.setup_context(ctx, args, results)
    return results


def _through(cls, *args):
    """Differentiate `forward` itself, as if it did not run within `torch.no_grad()`."""
    code, enter = cls.forward.__code__, torch.no_grad.__enter__

    def entering(self):
        if sys._getframe(1).f_code is not code:
            return enter(self)
        self.prev = torch.is_grad_enabled()

    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "None of the inputs have requires_grad")
        stack.callback(setattr, torch.no_grad, "__enter__", enter)
        torch.no_grad.__enter__ = entering
        return _forward(cls, _Context(), args)


def _called(cls, *args):
    """Compute by `forward`; the results get their gradients by `backward`."""
    given = {i: on_torchax(value).jax() for i, value in enumerate(args) if _is_inexact(value)}
    ctx = _Context()
    ctx.needs_input_grad = tuple(i in given for i in range(len(args)))
    with torch.no_grad():
        results = _forward(cls, ctx, args)
    outputs = list(results) if isinstance(results, tuple) else [results]
    fixed = {id(value) for value in getattr(ctx, "non_differentiable", ())}
    dirty = {id(value) for value in getattr(ctx, "dirty_tensors", ())}
    values = {
        i: jax.lax.stop_gradient(on_torchax(value).jax())
        for i, value in enumerate(outputs)
        if _is_inexact(value) and id(value) not in fixed
    }
    saved = _Saved(cls, ctx, given, values)
    saved.take(args, outputs, dirty)
    attached = _attached(saved, list(given.values()), list(values.values()), saved.values)
    for i, value in zip(values, attached):
        if id(outputs[i]) in dirty:
            put(outputs[i], value)
        else:
            outputs[i] = tensor(value)
    return tuple(outputs) if isinstance(results, tuple) else outputs[0]


class _Saved:
    """All that `backward` reads, but the values of tensors: they are handed to it when JAX calls it."""

    def __init__(self, cls, ctx, given, outputs):
        self.cls, self.count = cls, len(ctx.needs_input_grad)
        self.given, self.outputs = list(given), list(outputs)
        self.kinds = [value.aval for value in given.values()]
        self.leaves, self.tree = pytree.tree_flatten(vars(ctx))
        self.inputs, self.results, self.others = {}, {}, []  # where tensors among the leaves come from
        self.values = []

    def take(self, args, outputs, dirty):
        """Put aside the values of tensors, which belong to the trace of `forward`."""
        inputs = {id(args[i]): k for k, i in enumerate(self.given) if id(args[i]) not in dirty}
        results = {id(outputs[i]): k for k, i in enumerate(self.outputs)}
        for place, leaf in enumerate(self.leaves):
            if not isinstance(leaf, (Tensor, torchax.view.View)):
                continue
            if id(leaf) in inputs:
                self.inputs[place] = inputs[id(leaf)]
            elif id(leaf) in results:
                self.results[place] = results[id(leaf)]
            else:
                self.others.append(place)
                self.values.append(jax.lax.stop_gradient(on_torchax(leaf).jax()))
            self.leaves[place] = None
        self.shapes = [on_torchax(v).jax().aval if isinstance(v, torch.Tensor) else None for v in outputs]
        modules = modules_of(self.cls.backward, self.leaves)
        held = [held for m in modules for held in (*m._parameters.values(), *m._buffers.values())]
        self.held = list({id(one): one for one in held if _is_traced(one)}.values())
        self.values += [jax.lax.stop_gradient(one.jax()) for one in self.held]

    def backward(self, kept, gradients):
        """The gradients of what was given."""
        inputs, results, values = kept
        leaves, ctx = list(self.leaves), _Context()
        for place, value in zip((*self.inputs, *self.results, *self.others), (*inputs, *results, *values)):
            leaves[place] = tensor(value)
        vars(ctx).update(pytree.tree_unflatten(leaves, self.tree))
        known = dict(zip(self.outputs, gradients))
        with contextlib.ExitStack() as stack:
            stack.enter_context(entered())
            stack.enter_context(torch.enable_grad())
            for one, value in zip(self.held, values[len(self.others) :]):
                stack.callback(put, one, one.jax())
                put(one, value)
            found = self.cls.backward(ctx, *(self._gradient(i, known, ctx) for i in range(len(self.shapes))))
            found = found if isinstance(found, tuple) else (found,)
            return [self._fitted(found[i], kind) for i, kind in zip(self.given, self.kinds)]

    def _gradient(self, i, known, ctx):
        value, shape = known.get(i), self.shapes[i]
        if value is not None and not isinstance(value, jax.custom_derivatives.SymbolicZero):
            return tensor(jax.numpy.conj(value))  # as torch has them; of real numbers, these themselves
        if shape is None or not ctx.materialize_grads:
            return None
        return tensor(jax.numpy.zeros(shape.shape, shape.dtype))

    def _fitted(self, gradient, kind):
        """A gradient as JAX wants it; torch sums one that is wider than its input."""
        if gradient is None:
            return None
        gradient = on_torchax(gradient)
        if gradient.shape != kind.shape:
            gradient = gradient.sum_to_size(kind.shape)
        return jax.numpy.conj(gradient.jax()).astype(kind.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attached(saved, given, outputs, values):
    """The outputs, whose gradients go to what was given by `backward`."""
    return outputs


def _attached_and_kept(saved, given, outputs, values):
    given, outputs, values = jax.tree.map(
        lambda primal: primal.value,
        (given, outputs, values),
        is_leaf=lambda leaf: isinstance(leaf, jax.custom_derivatives.CustomVJPPrimal),
    )
    results = _attached(saved, given, outputs, values) if saved.results else outputs
    kept = [given[k] for k in saved.inputs.values()], [results[k] for k in saved.results.values()], values
    return outputs, kept


def _pulled_back(saved, kept, gradients):
    return saved.backward(kept, gradients), None, None


_attached.defvjp(_attached_and_kept, _pulled_back, symbolic_zeros=True)
