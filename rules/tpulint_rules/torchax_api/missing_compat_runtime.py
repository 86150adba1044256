"""Program that enters the torchax environment without the runtime torchax-compat.

## What it does

The rule reports `torchax.enable_globally()` in programs that do not use the runtime torchax-compat.

The rule does not report programs that are written for torchax, since they use `torchax.interop`,
`torchax.train`, `torchax.tensor`, `torchax.ops` or `torchax.extract_jax`.

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

The fix replaces `torchax.enable_globally()` with `torchax_compat.enable()`, which enters the environment, and
`torchax.disable_globally()` with `torchax_compat.disable()`.
The fix is unsafe, because results of the whole program may change: the runtime changes torch and torchax so
that the computations listed above, and others, behave as in PyTorch.
Install the runtime with `pip install torchax-compat`, or copy it into the project with `tpulint vendor`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.runtime import ENABLE, is_runtime_function
from tpulint.rules_api import Applicability, Context, Finding, Rule

rule = Rule(
    "TPU905",
    "torchax environment without the runtime torchax-compat",
    module=__name__,
    former=("otherwise-under-torchax",),
    fix=Applicability.UNSAFE,
)

#: What programs use of torchax that are written for it.
_WRITTEN_FOR_IT = ("interop", "tensor", "train", "ops", "extract_jax")


@rule.on(ast.Call, named={"enable_globally"})
def entered(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torchax.enable_globally" or not ctx.program.serves_device:
        return
    if _enters_by_runtime(ctx):
        return
    if _is_for_torchax(ctx) and not ctx.program.uses_runtime:
        return
    message = (
        "without the runtime torchax-compat, torchax copies, slices and prints tensors, and draws random "
        "numbers, unlike PyTorch"
    )
    title = f"call `{ENABLE}()` instead, which also restores the behavior of PyTorch"
    yield ctx.finding(call, message, ctx.rewrite.runtime_fix(title, call))


def _enters_by_runtime(ctx: Context) -> bool:
    """Whether the file also calls `torchax_compat.enable()`."""
    return any(is_runtime_function(at.names.qualified(call.func), ENABLE) for call, at in ctx.calls("enable"))


def _is_for_torchax(ctx: Context) -> bool:
    """Whether the program is written for torchax, since it uses `torchax.interop` or the like."""
    names = [ctx.names.qualified(node) for name in _WRITTEN_FOR_IT for node, _ in ctx.names.attributes(name)]
    wanted = {f"torchax.{name}" for name in _WRITTEN_FOR_IT}
    return not wanted.isdisjoint((*ctx.program.file_imports, *names))
