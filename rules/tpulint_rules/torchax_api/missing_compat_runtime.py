"""Program that relies on PyTorch behavior that torchax does not implement.

## What it does

The rule checks programs that compute no gradients and use no API of torchax other than `torchax.compile`.
In these programs, the rule reports `torchax.enable_globally()` if at least one of these statements is true:

- The program consists of several files.
- The program reads the values of tensors, copies tensors, counts, indexes or sorts their elements, or loads
  data or saved states.
- The program draws random numbers on the device.
- The program creates tensors from tensors, as in `torch.tensor([a, b])` or `torch.linspace(0, a, 5)`.
- The program assigns tensors to elements of tensors, or uses `range(...)` or a tensor in such an index.
- The program writes through a view that is a copy on torchax, such as `x.expand(3, 2)[1, 0] = 7`.
- The program transforms functions with `torch.func`.
- The program calls many functions of torch.

## Why it matters on TPU

torchax replaces all computations of PyTorch, and some computations of torchax behave differently.
The differences below were measured with torch 2.13.0, torchax 0.0.14.dev20261026 and jax 0.10.2.

Some computations give different results, without an error:

- `torch.randperm` and `torch.triu_indices` create device tensors where the program requests CPU tensors.
- `torch.randperm` with a generator draws different numbers than PyTorch.
- `torch.multinomial(chances, 1)` draws the same index for all rows that are equal.
- All other random numbers that torchax draws on the device also differ from those that PyTorch draws with the
  same seed.
- The result of `x.cpu()` shares memory with another tensor.
  If JAX computes on the CPU, the result shares memory with `x`.
  If JAX computes on another device, the result shares memory with the result of the next `x.cpu()`.
  For example, the in-place operation in `shown = x.cpu().mul_(255)` also changes `x`, or the result of a
  later `x.cpu()`.
- If `x` has 100 KB or more, the call `x.to("jax")` returns before it has copied all of `x`.
  If the program overwrites `x` immediately afterwards, for example with the next image, the device may
  receive the new values instead of the old ones.
- `print(x)` prints `Tensor(<class 'jaxlib._jax.ArrayImpl'> [1. 2.])`, not `tensor([1., 2.])`.

- `torch.tensor([a, b], device="jax")` of two integer tensors with one element has the dtype `float32`.

Other computations raise:

- `torch.tensor([a, b])` of two device tensors, and `torch.linspace(0, a, 5, device="jax")` and
  `torch.randint(0, a, (5,), device="jax")` of a CPU tensor, raise.
- `x[i] = a` raises `ValueError: Cannot broadcast to shape with fewer dimensions` if `a` has the shape `(1,)`
  and `x[i]` is a number.
  `x[range(3), 1] = 0` raises `TypeError`, and so do other indices that contain ranges or CPU tensors.
- `counts[labels] += 1`, with `counts` on the CPU and `labels` on the device, raises
  `AttributeError: 'Tensor' object has no attribute '_env'`.
  Other operations that combine CPU tensors and device tensors raise this error, too.
  An example is `load_state_dict` of a module on the CPU, with a state on the device.
- If a function returns a slice such as `x[1:]`, `tolist()` of the returned slice raises `RuntimeError:
  .tolist() is not supported for tensor subclasses, got View`.

## Fix safety

The fix adds `import torchax_training`, and writes the runtime package `torchax_training` beside the program.
The fix is unsafe, because results of the whole program may change: the runtime changes torch and torchax so
that the computations listed above, and others, behave as in PyTorch.

Two other rules add the runtime, too.
TPU611 (`backward-on-torchax`) adds the runtime to programs that compute gradients.
TPU645 (`uncompiled-evaluation`) adds the runtime to programs that call a model in a loop.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding
from tpulint.knowledge.training import TRAINING
from tpulint.knowledge.views import WRITES
from tpulint.model.values.kinds import Kind, Several, Tensor
from tpulint.model.values.views import lost_write
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU905",
    "program that relies on PyTorch behavior that torchax does not implement",
    module=__name__,
    former=("otherwise-under-torchax",),
    fix=Applicability.UNSAFE,
)

#: What a program calls that handles data on the host as well as on the device.
_MEETS = (
    *("tolist", "numpy", "cpu", "randperm", "triu_indices", "tril_indices", "load_state_dict", "one_hot"),
    *(
        "unique",
        "nonzero",
        "bincount",
        "index_add_",
        "scatter_",
        "scatter_add_",
        "topk",
        "argsort",
        "multinomial",
    ),
    *("DataLoader", "pad_sequence", "histc", "quantile", "fill_diagonal_", "nms"),
    *("to_empty", "skip_init"),
    *("vmap", "jacrev", "jacfwd", "hessian", "vjp", "jvp", "functional_call"),
)
#: Calls that draw random numbers on the device, and those that do if a device is passed.
_DRAWS = ("randn_like", "rand_like", "randint_like", "bernoulli", "dropout", "gumbel_softmax")
_PLACED_DRAWS = ("randn", "rand", "randint", "normal")
#: Functions that create tensors from numbers, which torchax cannot read from tensors in all cases.
_FROM_NUMBERS = ("tensor", "as_tensor", "new_tensor", "linspace", "logspace", "randint", "randint_like")
#: A program that calls as many functions of torch as these handles more than what it computes on the device.
_MANY = 10
#: What programs use of torchax that are written for it.
_WRITTEN_FOR_IT = ("interop", "tensor", "train", "ops", "extract_jax")


@rule.on(ast.Call, named={"enable_globally"})
def entered(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.qualified_name(call.func) != "torchax.enable_globally" or not ctx.serves_device:
        return
    project, name = ctx.module.project, ctx.module.name
    if project.program_imports(name, TRAINING.name):
        return
    if ctx.asks_gradients and not project.chooses_imports(name):  # else what asks may be imported late
        return
    if _differentiates(ctx) or _is_for_torchax(ctx):
        return
    if not _may_meet_it(ctx):
        return
    title = f"add the tpulint runtime `{TRAINING.name}`, which restores the behavior of PyTorch"
    fix = ctx.companion_fix(TRAINING, title)
    message = (
        "in some cases, torchax copies, slices and prints tensors, and draws random numbers, unlike PyTorch"
    )
    yield ctx.finding(call, message, fix)


def _may_meet_it(ctx: Context) -> bool:
    """Whether the program has several files, or handles data on the CPU and on the device."""
    several = any(facts.name != ctx.module.name for facts in ctx.module.project.program(ctx.module.name))
    if several or any(ctx.module.index.calls.get(name) for name in (*_MEETS, *_DRAWS)):
        return True
    drawn = (call for name in _PLACED_DRAWS for call, _ in ctx.calls(name))
    if any(word.arg == "device" for call in drawn for word in call.keywords):
        return True
    if _makes_from_tensors(ctx) or _loses_writes(ctx):
        return True
    if any(_sets_items(node, ctx) for node in _subscripts(ctx)):
        return True
    first = (next(iter(ctx.calls(name)), None) for name in ctx.module.index.calls)
    names = (ctx.qualified_name(one[0].func) for one in first if one is not None)
    return sum(name is not None and name.startswith("torch.") for name in names) >= _MANY


def _makes_from_tensors(ctx: Context) -> bool:
    """Whether a tensor is created from numbers that are tensors themselves."""
    return any(
        _holds_tensor(at.kind(value)) or _is_filled_later(value, at)
        for name in _FROM_NUMBERS
        for call, at in ctx.calls(name)
        for value in (*call.args, *(word.value for word in call.keywords))
    )


def _holds_tensor(kind: Kind) -> bool:
    if isinstance(kind, Several):
        return any(map(_holds_tensor, [kind.element] if kind.items is None else kind.items))
    return isinstance(kind, Tensor)


def _is_filled_later(value: ast.expr, ctx: Context) -> bool:
    """Whether a value is a list that is empty at first, to which tensors may be appended."""
    return any(isinstance(one, ast.List) and not one.elts for one in ctx.assigned_values(value))


def _subscripts(ctx: Context) -> Iterator[tuple[ast.Subscript, Context]]:
    for node, scope in ctx.module.index.nodes[ast.Subscript]:
        if isinstance(node, ast.Subscript):
            yield node, ctx.at(scope)


def _sets_items(place: tuple[ast.Subscript, Context], ctx: Context) -> bool:
    """Whether a tensor, or an element at a range or a tensor, is assigned to elements of a tensor."""
    node, at = place
    if not isinstance(node.ctx, ast.Store) or not isinstance(at.kind(node.value), Tensor):
        return False
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    is_range = any(
        isinstance(one, ast.Call) and at.qualified_name(one.func) == "builtins.range" for one in items
    )
    stored = getattr(ctx.parent(node), "value", None)
    values = [*items, *([stored] if isinstance(stored, ast.expr) else [])]
    return is_range or any(isinstance(at.kind(one), Tensor) for one in values)


def _loses_writes(ctx: Context) -> bool:
    """Whether elements are written through a view that torchax copies."""
    written = [(node.value, at) for node, at in _subscripts(ctx) if isinstance(node.ctx, ast.Store)]
    written += [
        (call.func.value, at)
        for name in WRITES
        for call, at in ctx.calls(name)
        if isinstance(call.func, ast.Attribute)
    ]
    return any(lost_write(ctx.module, node, at.scope) is not None for node, at in written)


def _differentiates(ctx: Context) -> bool:
    """Whether the program calls `backward` or `grad`, and not only transforms of `torch.func`."""
    names = (ctx.qualified_name(call.func) for name in ("backward", "grad") for call, _ in ctx.calls(name))
    return any(name is None or not name.startswith("torch.func.") for name in names)


def _is_for_torchax(ctx: Context) -> bool:
    """Whether the program is written for torchax, since it uses `torchax.interop` or the like."""
    taken = (node for name in _WRITTEN_FOR_IT for node, _ in ctx.module.index.taken.get(name, ()))
    names = [ctx.qualified_name(node) for node in taken if isinstance(node, ast.expr)]
    wanted = {f"torchax.{name}" for name in _WRITTEN_FOR_IT}
    return not wanted.isdisjoint((*ctx.module.project.modules[ctx.module.name].imports, *names))
