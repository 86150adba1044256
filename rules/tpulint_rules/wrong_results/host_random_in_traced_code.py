"""Random numbers of Python or NumPy in traced code.

## What it does

Flags calls of the `random` module and of `numpy.random` in `forward`, what it calls, and what is jitted.
Files whose traced code seeds them, and so repeats itself anyway, are left alone, and so are modules without
layers, parameters and buffers: transformations of data are often written as such, and run on the host.
In programs that train, the folder that TPU611 writes beside them draws at each call.

## Why it matters on TPU

A jitted function runs as Python once, when it is traced: the number that is drawn then is a constant of the
compiled program, the same at every call.
A layer that is dropped by chance is dropped always or never; noise is one pattern.
Nothing raises, and without jit the numbers are right.

## Without a fix

Draw with torch on the device, `torch.rand((), device=x.device)`, which torchax draws afresh at each call of a
jitted function, and choose by value: `torch.where(torch.rand((), device=x.device) < p, x, layer(x))`.
Or draw on the host, outside, and hand the number in as a tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Finding
from tpulint.model.project.project import Certainty
from tpulint.rule import Context, Rule

rule = Rule("TPU619", "random numbers of Python or NumPy in traced code", module=__name__, fix=None)

_PYTHON = frozenset(
    {"betavariate", "choice", "choices", "expovariate", "gauss", "getrandbits", "lognormvariate"}
    | {"normalvariate", "randint", "random", "randrange", "sample", "shuffle", "triangular", "uniform"}
)
_NUMPY = frozenset(
    {"beta", "binomial", "choice", "dirichlet", "exponential", "gamma", "gumbel", "laplace", "logistic"}
    | {"lognormal", "multinomial", "multivariate_normal", "normal", "permutation", "poisson", "rand"}
    | {"randint", "randn", "random", "random_integers", "random_sample", "ranf", "shuffle", "uniform"}
    | {"standard_normal"}
)
_DRAWS = {f"random.{name}" for name in _PYTHON} | {f"numpy.random.{name}" for name in _NUMPY}


@rule.on(ast.Call, named=_PYTHON | _NUMPY, traced=True)
def draw(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.qualified_name(call.func)
    if name in _DRAWS and _is_of_model(ctx) and not (_is_seeded(ctx) or ctx.is_amended):
        yield ctx.finding(call, f"`{name}` draws once, while tracing: jitted code repeats the same number")


def _is_seeded(ctx: Context) -> bool:
    """Whether traced code of this file seeds them, so that each call is to give the same."""
    return any(
        at.qualified_name(call.func) in ("random.seed", "numpy.random.seed") and at.trace_path is not None
        for call, at in ctx.calls("seed")
    )


def _is_of_model(ctx: Context) -> bool:
    """Whether what is traced is jitted by name, or the `forward` of a module that holds layers or tensors.

    Transformations of data are often modules, too, but hold none, and run on the host.
    """
    path, function, project = ctx.trace_path, ctx.scope.function, ctx.module.project
    if path is None or function is None or path.certainty > Certainty.FORWARD:
        return False
    if path.certainty is Certainty.JIT:
        return True
    root = path.steps[1].caller if len(path.steps) > 1 else f"{ctx.module.name}.{function.qualname}"
    classes = map(project.class_, project.mro((root or "").rpartition(".")[0]))
    return any(facts is not None and (facts.modules or facts.tensors) for facts in classes)
