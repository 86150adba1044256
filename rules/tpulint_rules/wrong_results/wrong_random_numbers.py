"""Random numbers that torchax draws incorrectly, or not at all.

## What it does

For tensors on a CUDA or torchax device, the rule reports:

- functions and methods that draw random numbers with `generator=`;
- `random_`;
- `F.gumbel_softmax`;
- `torch.normal` with tensors or with a `size`;
- `sample()` of `torch.distributions.Normal`, `LogNormal` and `HalfNormal`, if the same file creates the
  distribution;
- `normal_` with a standard deviation.

The rule does not report:

- code in a function that seeds the generator itself, or that draws on the device of the generator;
- programs that train: the fix of TPU611 (`backward-on-torchax`) adds the runtime torchax-compat
  to these programs, and the runtime draws as PyTorch does.
  In functions that such a program jits itself, draws with `generator=` and `sample()` are still reported.

## Why it matters on TPU

- torchax uses only the seed of a generator, so every draw with the same generator gives the same numbers.
- PyTorch draws integers for `random_()` and `random_(5, 10)`. torchax draws fractions: between 0 and 1 for
  `random_()`, and between 5 and 10 for `random_(5, 10)`.
- On torchax, `random_(10)` raises `AssertionError: Uniform from(passed in 10.0) must be less than to`.
- On torchax, `F.gumbel_softmax` gives NaN, because it calls `exponential_`, which has no effect.
- On torchax, `torch.normal(mean, std)` ignores the mean and the standard deviation, and draws from the
  standard normal distribution, without an error.
  `sample()` of `Normal`, `LogNormal` and `HalfNormal` calls `torch.normal`, and gives the same wrong numbers.
- `torch.normal(0.0, std)` raises `AttributeError: 'float' object has no attribute 'shape'`.
- `torch.normal` with a `size` raises `TypeError: _aten_normal() got an unexpected keyword argument 'device'`,
  also on the CPU.
- `x.normal_(0.0, 0.02)` raises `RuntimeError: Overloaded torch operator invoked from Python failed to match
  any schema: aten::normal()`.

## Fix safety

The following fixes are safe:

- The fix replaces `torch.normal(0.0, 0.1, size=size)` with `0.0 + 0.1 * torch.randn(size)`.
- The fix replaces `sample()` with `rsample().detach()`.
- The fix replaces `x.normal_(0.0, 0.02)` with `x.normal_().mul_(0.02).add_(0.0)`.

The following fixes are unsafe, because the new call does not always give the same numbers as the old one:

- The fix replaces `torch.randn(8, generator=g, device=device)` with `torch.randn(8, generator=g).to(device)`.
  The new call draws the same numbers as PyTorch on the CPU, and works only if `g` is a CPU generator.
- The fix replaces `torch.normal(mean, std)` with `mean + std * torch.randn_like(mean)`.
  The new expression works only if `std` can be broadcast to the shape of `mean`.

## Without a fix

Traced code cannot use a generator: the host would draw the numbers only once, while JAX traces the code, so
each call would use the same numbers.
There are two ways to draw new numbers at each call:

- Draw the numbers outside of the traced code, and pass them to the traced code as arguments.
- Draw the numbers without a generator, after a call of `torchax.default_env().manual_seed(seed)`.

Instead of calling `random_` or `gumbel_softmax`, compute the result from `randint_like` or `rand_like`:

```python
whole = torch.randint_like(x, 5, 10)
gumbel = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-20, 1 - 1e-7)))
softmax = ((logits + gumbel) / tau).softmax(-1)
```

With `hard=True`, `gumbel_softmax` returns 1 at the maximum of `softmax` and 0 elsewhere, with the gradient of
`softmax`:

```python
one_hot = torch.zeros_like(softmax).scatter(-1, softmax.argmax(-1, keepdim=True), 1.0)
hard = one_hot - softmax.detach() + softmax
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Device, Finding, Fix, Instance, Rule, Tensor
from tpulint.rules_api.syntax import arguments_by_name

rule = Rule(
    "TPU614",
    "random numbers that torchax draws incorrectly, or not at all",
    module=__name__,
    fix=Applicability.SAFE,
)

_FACTORIES = frozenset({"rand", "randint", "randn", "randperm"})
#: What `torch.normal` takes, by position.
_OF_NORMAL = ("mean", "std", "size")
#: Distributions whose `sample` calls `torch.normal`.
_NORMAL = frozenset(
    f"torch.distributions.{path}"
    for name, file in (("Normal", "normal"), ("LogNormal", "log_normal"), ("HalfNormal", "half_normal"))
    for path in (name, f"{file}.{name}")
)
#: What the runtime handles of them, as its table calls it.
_GENERATOR, _DEVICE = "random numbers with a generator", "random numbers on the device"
_SAMPLERS = frozenset({"bernoulli", "bernoulli_", "multinomial", "normal", "normal_", "uniform_"})


@rule.on(ast.Call, named=_FACTORIES)
def factory(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func) or ""
    device = _keyword(call, "device")
    if name.removeprefix("torch.") not in _FACTORIES or device is None or not _repeats(call, ctx):
        return
    if _is_accelerator(device, ctx) and not ctx.program.runtime_handles(
        _GENERATOR, name.removeprefix("torch.")
    ):
        yield ctx.finding(call, _message(name), _drawn_on_host(call, device, ctx))


@rule.on(ast.Call, named=_SAMPLERS, traced=True)
def sampler(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not _repeats(call, ctx):
        return
    name = ctx.names.qualified(call.func)
    if name is None and isinstance(call.func, ast.Attribute):
        drawn, name = call.func.value, call.func.attr
    elif name in ("torch.bernoulli", "torch.multinomial", "torch.normal") and call.args:
        drawn = call.args[0]
    else:
        return
    if _is_on_device(drawn, ctx) and not ctx.program.runtime_handles(_GENERATOR, name.removeprefix("torch.")):
        yield ctx.finding(call, _message(name))


@rule.on(ast.Call, named={"random_"})
def random_(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not _is_on_device(call.func.value, ctx):
        return
    if not ctx.program.runtime_handles(_DEVICE, "random_"):
        message = "on torchax, `random_` draws fractions instead of integers, or raises `AssertionError`"
        yield ctx.finding(call, message)


@rule.on(ast.Call, named={"gumbel_softmax"})
def gumbel_softmax(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.nn.functional.gumbel_softmax" or not call.args:
        return
    if ctx.trace.path is None and not _is_on_device(call.args[0], ctx):
        return
    if not ctx.program.runtime_handles(_DEVICE, "gumbel_softmax"):
        message = (
            "`gumbel_softmax` returns NaN on torchax, because it calls `exponential_`, which has no effect"
        )
        yield ctx.finding(call, message)


@rule.on(ast.Call, named={"normal"})
def normal(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.normal" or any(word.arg is None for word in call.keywords):
        return
    given = arguments_by_name(call, _OF_NORMAL)
    if any(isinstance(value, ast.Starred) for value in call.args) or "mean" not in given:
        return
    mean, std = given["mean"], given.get("std")
    operands = [value for value in (mean, std) if value is not None]
    is_concerned = (
        ctx.program.serves_device if "size" in given else any(_is_on_device(o, ctx) for o in operands)
    )
    if is_concerned and ctx.program.runtime_handles(_DEVICE, "normal"):
        return
    if "size" in given:
        if ctx.program.serves_device:
            message = "`torch.normal` with `size` raises `TypeError` in the torchax environment"
            yield ctx.finding(call, message, _scaled(call, given, ctx))
    elif _is_on_device(mean, ctx):
        message = "on torchax, `torch.normal` ignores its mean and standard deviation, without an error"
        yield ctx.finding(call, message, _scaled(call, given, ctx))
    elif std is not None and _is_on_device(std, ctx):
        yield ctx.finding(
            call,
            "`torch.normal` with a scalar mean raises `AttributeError` on torchax",
            _scaled(call, given, ctx),
        )


@rule.on(ast.Call, named={"sample"})
def sample(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not (
        ctx.trace.path is not None or ctx.program.serves_device
    ):
        return
    kind = ctx.types.of(call.func.value)
    if not isinstance(kind, Instance) or ctx.types.defines_method(kind.cls, "sample"):
        return
    classes = _NORMAL.intersection(ctx.types.ancestors(kind.cls))
    if any(
        not ctx.program.runtime_handles("samples of normal distributions", _plain(cls)) for cls in classes
    ):
        edits = (
            ctx.rewrite.rename(call.func, "rsample"),
            ctx.rewrite.wrap(call, "", ".detach()"),
        )
        message = "on torchax, `sample` ignores the mean and standard deviation, without an error"
        yield ctx.finding(
            call, message, ctx.rewrite.fix("replace `sample()` with `rsample().detach()`", *edits)
        )


@rule.on(ast.Call, named={"normal_"})
def normal_(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not _is_on_device(call.func.value, ctx):
        return
    if isinstance(call.func.value, ast.Attribute) and ctx.trace.path is None:
        return  # a parameter, which is on the host while its module is made
    given = dict(zip(_OF_NORMAL, call.args, strict=False))
    given |= {word.arg or "": word.value for word in call.keywords}
    std = given.get("std")
    if std is None or (isinstance(std, ast.Constant) and std.value == 1):
        return
    if ctx.program.runtime_handles(_DEVICE, "normal_"):
        return
    fix = None
    if given.keys() <= {"mean", "std"}:
        scaled = f"{ctx.rewrite.operand(call.func.value)}.normal_().mul_({ctx.text(std)})"
        shifted = f".add_({ctx.text(given['mean'])})" if "mean" in given else ""
        title = "call `normal_()` without arguments, and scale the random numbers with `mul_`"
        fix = ctx.rewrite.fix(title, ctx.rewrite.replace(call, f"{scaled}{shifted}"))
    yield ctx.finding(call, "`normal_` with a standard deviation raises `RuntimeError` on torchax", fix)


def _plain(cls: str) -> str:
    """The name of a class of `torch.distributions` without the name of its file."""
    return f"torch.distributions.{cls.rpartition('.')[2]}"


def _scaled(call: ast.Call, given: dict[str, ast.expr], ctx: Context) -> Fix | None:
    """The fix that scales and shifts standard normal numbers of the same shape or size."""
    mean, std, size = given["mean"], given.get("std"), given.get("size")
    words = {name: value for name, value in given.items() if name not in ("mean", "std", "size")}
    imports = ctx.rewrite.imports("import torch")
    if imports is None or words.keys() - {"device", "dtype"} or (words and size is None):
        return None
    if size is not None:
        options = "".join(f", {name}={ctx.text(value)}" for name, value in words.items())
        drawn, applicability = f"torch.randn({ctx.text(size)}{options})", Applicability.SAFE
    else:
        like = mean if _is_on_device(mean, ctx) else std
        if not isinstance(like, ast.Name | ast.Attribute):
            return None
        drawn, applicability = f"torch.randn_like({ctx.text(like)})", Applicability.UNSAFE
    times = f"{_factor(std, ctx)} * " if std is not None else ""
    edit = ctx.rewrite.replace(call, ctx.rewrite.grouped(call, f"{_factor(mean, ctx)} + {times}{drawn}"))
    name = "torch.randn_like" if size is None else "torch.randn"
    title = f"replace `torch.normal` with scaled random numbers from `{name}`"
    return ctx.rewrite.fix(title, edit, *imports, applicability=applicability)


def _factor(node: ast.expr, ctx: Context) -> str:
    return ctx.text(node) if isinstance(node, ast.Constant) else ctx.rewrite.operand(node)


def _message(name: str) -> str:
    return f"on torchax, `{name}` with `generator=` draws the same numbers at every call"


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The keyword argument `device` or `generator`; None if the call does not pass it."""
    return next((item.value for item in call.keywords if item.arg == name), None)


def _repeats(call: ast.Call, ctx: Context) -> bool:
    """Whether the call passes `generator=`, and the function does not seed it or read its device."""
    generator = _keyword(call, "generator")
    if generator is None or isinstance(generator, ast.Constant):
        return False
    same = ast.dump(generator.value if isinstance(generator, ast.Subscript) else generator)
    return not any(
        isinstance(node, ast.Attribute)
        and node.attr in ("device", "manual_seed")
        and ast.dump(node.value) == same
        for statement in ctx.function_body
        for node in ast.walk(statement)
    )


def _is_accelerator(device: ast.expr, ctx: Context) -> bool:
    """Whether the device may be the TPU."""
    if isinstance(device, ast.Constant):
        return isinstance(device.value, str) and not device.value.startswith("cpu")
    kind = ctx.types.of(device)
    on_host = isinstance(kind, Device) and kind.type == "cpu"
    return not on_host and ctx.program.serves_device


def _is_on_device(node: ast.expr, ctx: Context) -> bool:
    """Whether the value is known to be a tensor that may be on the device."""
    kind = ctx.types.of(node)
    return (
        isinstance(kind, Tensor)
        and kind.is_traced
        and (ctx.trace.path is not None or ctx.program.serves_device)
    )


def _drawn_on_host(call: ast.Call, device: ast.expr, ctx: Context) -> Fix | None:
    word = next(item for item in call.keywords if item.value is device)
    is_first = not call.args and word is min(call.keywords, key=ctx.span)
    if ctx.trace.path is not None or is_first:
        return None
    without = ctx.rewrite.remove_argument(word)
    moved = ctx.rewrite.wrap(call, "", f".to({ctx.text(device)})")
    title = f"draw random numbers on the CPU, and move them to the device with `.to({ctx.text(device)})`"
    return ctx.rewrite.fix(title, without, moved, applicability=Applicability.UNSAFE)
