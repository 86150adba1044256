"""The decorator `@differentiable`: JAX compiles a function and its gradients for `loss.backward()`.

PyTorch's autograd does not see all that torchax computes: after a plain `loss.backward()`, gradients are
missing.
A function decorated with `@differentiable` is a single node of the autograd graph instead.
JAX compiles it once for each combination of shapes and modes, and computes its gradients with respect to its
arguments and the parameters of all modules that it uses.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import types
import warnings
from collections.abc import Iterator

import jax
import torch
import torchax
from torch.utils import _pytree as pytree

from . import arrays, gradients
from .autograd import frozen, pullbacks, taps
from .host import compiling
from .tensors import lazy
from .tracing import (
    asked,
    attributes,
    calls,
    casts,
    copied,
    draws,
    filled,
    owners,
    printed,
    random_states,
    reach,
    reads,
    records,
    recompiled,
    trace,
    varying,
)

_BEGUN_ANEW = asked.Others, asked.Unknown, draws.Others, gradients.NotRecorded, lazy.Awaited, frozen.Thawed


class differentiable:
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
            inputs within the function.
    """

    def __new__(cls, function=None, **options):
        return super().__new__(cls) if function is not None else functools.partial(cls, **options)

    def __init__(self, function, *, compiled=True):
        functools.update_wrapper(self, function)
        self.function = function
        self.known, self.plain, self.apart = trace.Known(takes_numbers=True), set(), calls.Apart()
        self.compilations = recompiled.Compilations(function)
        self.hits = 0  # calls with plain values that occurred before
        self.records = records.Records(is_on=compiled)
        self.told = {}  # the answers that tensors gave, by the key of a call
        self.latest = {}  # those of the last run without compilation, by the plain values
        self.is_compiled, self.is_recorded = compiled, False
        self.thawed = set()  # the `id`s of parameters whose `requires_grad` it enables

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *plain_args, **plain_kwargs):
        args, kwargs = self.records.taken(plain_args, plain_kwargs)
        leaves, tree = pytree.tree_flatten((args, kwargs))
        modules, others = reach.reached(self.function, leaves)
        hooks = [hook for module in modules for hook in owners.hooks_of(module)]
        if hooks:
            args, kwargs = owners.with_containers(hooks, args, kwargs)
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
        copies = copied.copies(held, given)
        with_gradient = frozen.wants_gradients(given, self.thawed)
        plain = (
            tree,
            tuple(None if isinstance(leaf, torch.Tensor) else trace.identity(leaf) for leaf in leaves),
            tuple(numbers.values()),
            tuple(id(tensor) for tensor in parameters),
            tuple(with_gradient),
            tuple(module.training for module in modules),
            tuple(map(id, hooks)),
            trace.modes(),
        )
        if any(isinstance(leaf, (Iterator, torch.utils.data.DataLoader)) for leaf in leaves):
            self.is_compiled = False  # they yield other batches each time
        self.hits += plain in self.plain
        self.plain.add(plain)
        most = trace.MOST_VERSIONS if self.hits > len(self.plain) else trace.MOST_NEW_VERSIONS
        if self.is_compiled and len(self.plain) > most:
            self._stop_compiling(
                f"it was called with {most} combinations of non-tensor arguments, modules and modes; pass "
                "arrays and lists that change as tensors, and create modules once"
            )
        key = (plain, *((one.shape, one.dtype) for one in tensors))
        note = functools.partial(self.compilations.note, plain, args, kwargs)
        make = functools.partial(_Version, self, leaves, tree, modules, parameters, with_gradient, places)
        try:
            result, changed = self._called(key, make, given, note)
        except _NeededAsTheyAre:
            if not self.known.refuse():
                self.known.varying.is_on = False
            return self(*plain_args, **plain_kwargs)
        except gradients.NotRecorded as error:
            if self.is_recorded:
                why = (
                    "`torch.autograd.grad` does not find how its outputs depend on its inputs: compute the "
                    "outputs in the decorated function that calls it"
                )
                raise RuntimeError(why) from error
            self.function, self.is_recorded = gradients.recorded(self.function), True
            self.known.traces.clear()
            return self(*plain_args, **plain_kwargs)
        except records.Written:
            self.records.is_on = False
            return self(*plain_args, **plain_kwargs)
        except lazy.Awaited as error:
            error.infer()
            return self(*plain_args, **plain_kwargs)
        except frozen.Thawed as error:
            self.thawed.add(id(error.parameter))
            return self(*plain_args, **plain_kwargs)
        copied.put_back(copies)
        filled.put(changed, (plain_args, plain_kwargs))
        return filled.given_back(result, (plain_args, plain_kwargs))

    def _called(self, key, make, given, note):
        """Call the version with the right answers; if there is none, run the function without compilation."""
        told = self._told_of(key) if self.is_compiled else None
        answers = () if told is None else told.fitting()
        while answers is not None:
            asks_counts = told is not None and told.asks_counts
            version = self._fitting((key, answers, asks_counts))
            if version is None:
                version = make(answers)
                self.known.add((key, answers, asks_counts), version)
            is_new = self.is_compiled and version.is_new
            version.is_told, version.asks_counts = told is not None, asks_counts
            version.pattern = [] if told is None else told.patterns.get(answers)
            if told is not None and version.draws is None:
                version.draws = told.draws.get(answers, [])
                version.may_draw_others = told.may_draw_others
            try:
                result = self._run(version, given)
            except draws.Others as error:
                version.draws = error.draws
                if told is not None and error.are_more:
                    told.draws[answers], told.may_draw_others = error.draws, False
            except asked.Others as error:
                answers = told.fitting(error.answers)
            except asked.Counted:
                told = self.told[key] = asked.Answers(asks_counts=True)
                answers = None
            except asked.Unknown:
                version.is_void = True
                if told is not None and not told.may_be_others():
                    self._stop_compiling(
                        "it needs values of tensors in Python that differ at each call, or that a compiled "
                        "function cannot return"
                    )
                    return version(given, is_compiled=False)
                told = self.told.setdefault(key, asked.Answers())
                answers = told.fitting_instead(answers)
            else:
                if told is not None:
                    told.were(answers)
                    told.is_borrowed = False
                return result
            finally:
                if is_new and self.is_compiled and not version.is_new:
                    note()
        version = make(())
        buffers = trace.buffers_of(version.modules).values()
        recording = asked.Recording(buffers, version.generators, asks_counts=told.asks_counts)
        spoken = printed.Spoken(recording.reads)
        before = random_states.states_of_host(version.generators)
        try:
            with asked.by(recording), spoken.listening(), casts.handed_on(self.function, version.modules):
                result = version(given, is_compiled=False)
        except gradients.NotRecorded:
            random_states.draw_again(before)  # the function runs once more
            raise
        except TypeError as error:
            if not version.in_place_of:
                raise
            random_states.draw_again(before)
            raise _NeededAsTheyAre from error
        version = None  # it keeps the results of the run alive
        if recording.reads.are_used or recording.reads.are_kept() or not spoken.is_complete():
            if recording.reads_counts:
                self.told[key] = asked.Answers(asks_counts=True)
            else:
                self._stop_compiling(
                    "it uses numbers that it reads from tensors (`.item()`, `float(x)`) for more than to "
                    "return or log them, or draws random numbers that cannot be drawn again; keep such "
                    "numbers as tensors"
                )
            return result
        told.keep(tuple(recording.answers), spoken.pattern, recording.draws)
        self.latest[key[0]] = told
        if told.keep_changing():
            self._stop_compiling(
                "conditions on tensors, or sizes that are read from tensors, keep changing; use "
                "`torch.where` or fixed sizes"
            )
        return result

    def _told_of(self, key):
        """The answers for a key; new shapes use the latest ones of other shapes, if those were confirmed."""
        if key not in self.told:
            latest = self.latest.get(key[0])
            borrowed = None if latest is None or latest.is_borrowed else latest.borrowed()
            if borrowed is not None:
                self.told[key] = borrowed
        return self.told.get(key)

    def _run(self, version, given):
        may_fail = version.is_new or (version.draws and version.is_told)
        before = random_states.states_of_host(version.generators) if self.is_compiled and may_fail else None
        try:
            result = version(given, self.is_compiled)
        except Exception as error:
            if before is not None:
                random_states.draw_again(before)  # undo the draws of the failed trace
            if isinstance(error, _BEGUN_ANEW):
                raise
            if version.is_new and (version.in_place_of or version.stands_in()):
                raise _NeededAsTheyAre from error
            if varying.has_texts(version.leaves):
                raise _NeededAsTheyAre from error
            needs_value = isinstance(error, trace.NEEDS_VALUE) or version.reads_numbers()
            if self.is_compiled and needs_value and version.replay.reads_counts:
                raise asked.Counted from error
            if not self.is_compiled or not needs_value:
                if version.is_new and self.records.are_taken:
                    raise records.Written from error
                version.held.tell_without_numbers()
                raise
            self._stop_compiling(arrays.first_line(error))
            return version(given, self.is_compiled)
        if self.is_compiled and version.drew_on_host:
            self._stop_compiling(
                "it draws random numbers on the host, which a compiled function would draw only once; draw "
                "them before the call and pass them as arguments"
            )
        return result

    def _fitting(self, key):
        if self.is_compiled:
            try:
                return self.known.fitting(key)
            except trace.TooManyStates as error:
                self._stop_compiling(error)
        elif len(self.known.traces) > trace.MOST_VERSIONS:
            self.known.traces.clear()
        return next(iter(self.known.traces.get(key, ())), None)

    def _stop_compiling(self, why):
        self.is_compiled = False
        warnings.warn(
            f"`{self.__name__}` runs call by call: the modules and functions that it calls are compiled one "
            f"by one, not `{self.__name__}` as a whole (slower, same results). Reason: {why}",
            stacklevel=3,
        )


class _NeededAsTheyAre(Exception):
    """Plain arguments that keep changing are needed as Python values, not as tensors."""


class _Version(trace.Trace):
    """A function for one combination of arguments, whose gradients JAX computes.

    `in_place_of` are the positions of tensors that replace plain arguments, `answers` the Python values that
    the function gets from tensors (`tracing/asked.py`).
    """

    def __init__(self, owner, leaves, tree, modules, parameters, with_gradient, in_place_of, answers):
        _, places = trace.numbered(leaves, parameters)
        objects, states = owners.of(modules, leaves, owner.function), owner.known.states.values()
        super().__init__(owner.function, leaves, tree, places, modules, parameters, objects, states)
        self.with_gradient, self.apart = with_gradient, owner.apart
        self.in_place_of, self.answers = in_place_of, answers
        self.notes_names = owner.known.knows_names
        self.is_new, self.is_told, self.asks_counts, self.pattern = True, False, False, []
        self.learns = torch.is_grad_enabled()
        self.reached = None  # which of the inputs with gradients the outputs depend on
        self.draws, self.may_draw_others, self.replay = None, False, None
        compilations = owner.compilations
        few = compiling.FEW_CALLS_OF_MANY_SHAPES if compilations.have_many_shapes() else compiling.FEW_CALLS
        jitted = functools.partial(compiling.Jitted, took=compilations.took, few_calls=few)
        self.forward = jitted(self._forward)
        self.reached_from = {}  # the same, by which outputs have gradients
        self.backward = jitted(pullbacks.pulled, static_argnums=(2, 3))

    def __call__(self, given, is_compiled):
        if is_compiled:
            with calls.running(None), frozen.linked(given, self.with_gradient):
                made = _Node.apply(self, (self.forward, self.backward), *self._linked(given))
        else:
            with (
                self.apart.compiled(self.modules, lambda: self.objects),
                frozen.linked(given, self.with_gradient),
            ):
                made = _Node.apply(self, (self._forward_of_values, pullbacks.pulled), *self._linked(given))
        return self._result(made, given)

    def _linked(self, given):
        """The inputs, without the graphs behind those that get no gradient, such as earlier steps."""
        if self.reached is None:
            return given
        reached = iter(self.reached)
        cut = [wanted and not next(reached) for wanted in self.with_gradient]
        first = len(self.parameters)
        return [
            tensor.detach() if lost and i >= first else tensor
            for i, (tensor, lost) in enumerate(zip(given, cut))
        ]

    def compute(self, forward, given):
        """Outputs and pullback; buffers, changed parameters and the random state are written back."""
        buffers = trace.buffers_of(self.modules).values()
        values = [tensor.jax() for tensor in given]
        states, drawn = attributes.values(self.states), []
        if forward is self.forward:
            drawn = draws.taken(self.draws or ())
            if self.replay is not None:
                self.replay.check_early(reads.Numbers([], states, drawn))
        outputs, pullback, (rest, told, numbers, *changes) = forward(
            [value for value, wanted in zip(values, self.with_gradient) if wanted],
            [value for value, wanted in zip(values, self.with_gradient) if not wanted],
            [buffer.jax() for buffer in buffers],
            torchax.default_env().prng_key,
            states,
            drawn,
        )
        self.is_new = False
        self.numbers = reads.Numbers([number.item() for number in jax.device_get(numbers)], states, drawn)
        self.replay.check(told, self.numbers)
        self.leave(given, buffers, *changes, self.numbers)
        self.frozen.leave()
        self.held.tell(self.numbers)
        # A function that runs call by call may take another branch each time.
        reached = (
            self.reached
            if self.reached is not None and forward is self.forward
            else pullbacks.reached(pullback)
        )
        self.reached = reached if self.reached is None else self.reached
        self._make_anew(reached)
        return outputs, rest, pullback, reached, pullbacks.bearing(pullback, len(outputs))

    def _make_anew(self, reached):
        """Create new parameters for replaced ones that get gradients: no optimizer has the new ones.

        Other replaced parameters, such as a codebook that follows averages, stay the same objects with new
        values.
        """
        reaches = iter(reached)
        comes = [wanted and next(reaches) for wanted in self.with_gradient]
        for i, (module, name) in self.replaced.items():
            if comes[i]:
                with torch.no_grad():
                    module._parameters[name] = torch.nn.Parameter(self.parameters[i].detach().clone())

    def _forward(self, learned, *others, is_traced=True):
        return jax.vjp(lambda learned: self._traced(learned, *others, is_traced), learned, has_aux=True)

    def _forward_of_values(self, *given):
        return self._forward(*given, is_traced=False)

    def _traced(self, learned, fixed, buffers, random, states, drawn, is_traced):
        learned, fixed = iter(learned), iter(fixed)
        values = [next(learned) if wanted else next(fixed) for wanted in self.with_gradient]
        buffers_held = trace.buffers_of(self.modules).values()
        self.replay = asked.Replaying(
            self.answers,
            buffers_held,
            draws.Collected(self.draws or (), drawn, may_be_other=self.may_draw_others),
            asks_counts=self.asks_counts,
            is_told=self.is_told,
        )
        self.held = printed.Held(self.replay.reads)
        with self._asking() if is_traced else contextlib.nullcontext():
            tensors, *changes = self.run(values, buffers, random, states, is_traced=is_traced)
        self.is_float = [jax.numpy.issubdtype(value.dtype, jax.numpy.inexact) for value in tensors]
        floats = [value for value, is_float in zip(tensors, self.is_float) if is_float]
        rest = [value for value, is_float in zip(tensors, self.is_float) if not is_float]
        left = (leaf for _, kept, *_ in self.left[0] for leaf in kept)
        kept = [*self.held.numbers_kept(), *self.replay.compared.values()]
        reads.check(self.replay.reads, [*self.outputs, *left, *kept])
        if is_traced:
            self.replay.collected.check()
        if is_traced and self.held.pattern != self.pattern:
            raise asked.Unknown
        return floats, (rest, self.replay.values, self.replay.reads.values, *changes)

    @contextlib.contextmanager
    def _asking(self):
        """The contexts in which numbers that are read, drawn or printed are placeholders."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(asked.by(self.replay))
            stack.enter_context(draws.collecting(self.replay.collected))
            stack.enter_context(self.held.listening())
            stack.enter_context(casts.handed_on(self.function, self.modules))
            yield

    def reads_numbers(self):
        """Whether it was traced with placeholders for numbers or random draws."""
        return bool(self.replay.reads.values or self.replay.drawn)

    def around(self):
        self.frozen = frozen.Frozen(self.parameters, self.with_gradient, learns=self.learns)
        enabled = torch.set_grad_enabled(self.learns)
        return arrays.entered(), enabled, self.frozen.running(), calls.Calls(self.frozen)

    def told(self, result, arguments):
        return filled.marked(result, arguments)

    def taken(self, result, inputs, arguments):
        """The tensors of a result, and of items that are added to dictionaries and lists among the arguments.

        Arguments that require gradients are returned themselves.
        """
        leaves = self.with_tensors(inputs)
        changed = list(filled.changes(pytree.tree_unflatten(leaves, self.tree), arguments))
        self.filled = [(place, gone) for place, _, gone in changed]
        result = result, [new for _, new, _ in changed]
        varying.check([leaves[i] for i in self.in_place_of], pytree.tree_leaves(result[1]), ())
        places = {id(tensor): i for i, tensor in enumerate([*self.parameters, *inputs])}
        made = pytree.tree_leaves(result)
        self.retained = [isinstance(one, torch.Tensor) and getattr(one, "tap", None) for one in made]
        self.on_host = [isinstance(leaf, calls.OnHost) for leaf in pytree.tree_leaves(result)]
        self.handed_back = [places.get(id(leaf)) for leaf in pytree.tree_leaves(result)]
        return super().taken(result, inputs, arguments)

    def _result(self, tensors, given):
        tensors = iter(tensors)
        leaves = [
            next(tensors) if wanted else reads.known(leaf, self.numbers)
            for leaf, wanted in zip(self.outputs, self.is_tensor)
        ]
        with torch._C.DisableTorchFunction():
            for i, place in enumerate(self.handed_back):
                if place is not None and given[place].requires_grad and given[place].is_leaf:
                    leaves[i] = given[place]
                elif self.retained[i]:
                    taps.keep(leaves[i], self.retained[i])
                elif self.on_host[i] and not leaves[i].requires_grad:
                    leaves[i] = leaves[i].cpu()
        result, contents = pytree.tree_unflatten(leaves, self.shape)
        return records.together(result), [
            (place, new, gone) for (place, gone), new in zip(self.filled, contents)
        ]


class _Node(torch.autograd.Function):
    @staticmethod
    def forward(ctx, version, run, *given):
        forward, ctx.backward_function = run
        floats, rest, ctx.pullback, ctx.reached, ctx.bearing = version.compute(forward, given)
        ctx.version, ctx.kinds = version, tuple(value.aval for value in floats)
        ctx.is_float = version.is_float  # a function that runs call by call may return others next time
        made, rest = list(map(arrays.tensor, floats)), list(map(arrays.tensor, rest))
        ctx.mark_non_differentiable(*rest, *(one for one, bears in zip(made, ctx.bearing) if not bears))
        ctx.set_materialize_grads(False)
        floats, others = iter(made), iter(rest)
        return tuple(next(floats) if is_float else next(others) for is_float in version.is_float)

    @staticmethod
    def backward(ctx, *gradients):
        if all(gradient is None for gradient in gradients):
            return (None,) * (2 + len(ctx.version.with_gradient))
        floats = [g for g, is_float in zip(gradients, ctx.is_float) if is_float]
        values = [None if g is None else arrays.on_torchax(g).jax() for g in floats]
        reached = _reached_from(ctx, tuple(g is not None for g in floats))
        given = ctx.pullback, values, ctx.kinds, reached
        try:
            found = ctx.backward_function(*given)
        except taps.Traced:
            ctx.version.backward = pullbacks.pulled
            found = pullbacks.pulled(*given)
        except jax.errors.ConcretizationTypeError as error:  # in the `backward` of a custom function
            warnings.warn(
                "the backward pass is not compiled (slower, same results), since the `backward` of a "
                f"custom `torch.autograd.Function` needs the value of a tensor: {arrays.first_line(error)}",
                stacklevel=1,
            )
            ctx.version.backward = pullbacks.pulled
            found = pullbacks.pulled(*given)
        # Inputs that the outputs do not depend on get None, not zeros, so that optimizers skip them.
        made = map(arrays.tensor, found)
        found = (next(made) if is_reached else None for is_reached in reached)
        return None, None, *(next(found) if wanted else None for wanted in ctx.version.with_gradient)


def _reached_from(ctx, have_gradients):
    """Which of the inputs with gradients are reached from the outputs that have gradients."""
    wanted = tuple(itertools.compress(have_gradients, ctx.bearing))
    if all(wanted) or len(wanted) != len(ctx.pullback.jaxpr.outvars):
        return ctx.reached
    if ctx.backward_function is pullbacks.pulled:
        return pullbacks.reached(ctx.pullback, wanted)
    known = ctx.version.reached_from
    if wanted not in known:
        known[wanted] = pullbacks.reached(ctx.pullback, wanted)
    return known[wanted]
