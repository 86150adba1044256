"""Seed that does not apply to random numbers on the device.

## What it does

In programs that move tensors to a CUDA or torchax device, the rule reports calls of `torch.manual_seed(seed)`
that are statements of their own.

The rule does not report:

- calls in functions that also seed torchax, CUDA or a generator;
- calls in methods, because most methods set the seed for the initial weights of a layer, which PyTorch
  creates on the CPU;
- calls in programs that move no tensor to a CUDA or torchax device.

## Why it matters on TPU

torchax has its own random number generator, which dropout also uses.
torchax seeds its generator once, when it creates the torchax environment.
`torch.manual_seed` does not seed the generator of torchax, and raises no error:

- The random numbers on the device are the same for every seed.
- A second call of `torch.manual_seed` with the same seed does not repeat the random numbers.

## Fix safety

The fix is unsafe, because the random numbers on the device differ from those of PyTorch for the same seed.
The fix adds `torchax.default_env().manual_seed(seed)` after the call of `torch.manual_seed`.
The random numbers on the device are then reproducible.

## Without a fix

If the seed is the result of a call, as in `torch.manual_seed(int(time.time()))`, there is no automatic fix.
Assign the seed to a variable, and pass the variable to `torchax.default_env().manual_seed` as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule(
    "TPU617",
    "seed that does not apply to random numbers on the device",
    module=__name__,
    former=("seed-of-host-alone",),
    fix=Applicability.UNSAFE,
    targets=EVERY_TARGET,
)

_SEEDS = frozenset({"torch.manual_seed", "torch.random.manual_seed"})
_OTHERS = frozenset({"manual_seed", "manual_seed_all"})


@rule.on(ast.Call, named={"manual_seed"})
def manual_seed(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) not in _SEEDS or len(call.args) != 1 or ctx.trace.path is not None:
        return
    statement = ctx.statement(call)
    if not isinstance(statement, ast.Expr) or statement.value is not call or not ctx.program.target.seed:
        return
    if not ctx.program.serves_device and not ctx.program.runs_on_torch_xla:
        return
    in_method = ctx.scope.function is not None and ctx.scope.function.owner is not None
    if in_method or _seeds_device(ctx):
        return  # in a method it is mostly a layer's first weights that are made, on the host
    message = (
        "`torch.manual_seed` does not seed the device: with every seed, the device draws the same numbers"
    )
    yield ctx.finding(call, message, _seeded(statement, call.args[0], ctx))


def _seeds_device(ctx: Context) -> bool:
    """Whether this function or script also seeds the torchax environment, CUDA, or a generator."""
    first, last = ctx.function_body[0], ctx.function_body[-1]
    return any(first.lineno <= row <= (last.end_lineno or last.lineno) for row in ctx.once(_other_seeds))


def _other_seeds(ctx: Context) -> list[int]:
    """The lines in which the file seeds anything but the default generator of the CPU."""
    return [
        call.lineno
        for name in _OTHERS
        for call, at in ctx.calls(name)
        if isinstance(call.func, ast.Attribute) and at.names.qualified(call.func) not in _SEEDS
    ]


def _seeded(statement: ast.stmt, seed: ast.expr, ctx: Context) -> Fix | None:
    code = ctx.program.target.seed
    imports = ctx.rewrite.imports(*ctx.program.target.needed_for(code))
    if imports is None or any(isinstance(node, ast.Call) for node in ast.walk(seed)):
        return None
    title = f"add `{code.format('...')}`, which seeds the random numbers on the device"
    edit = ctx.rewrite.insert_after(statement, code.format(ctx.text(seed)))
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
