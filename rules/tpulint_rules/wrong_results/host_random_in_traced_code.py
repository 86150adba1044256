"""Python or NumPy random numbers in traced code.

## What it does

The rule reports calls of the `random` module and of `numpy.random` in `forward` methods, in functions that
`forward` calls, and in jitted functions.

The rule does not report:

- files whose traced code calls `random.seed` or `numpy.random.seed`, because such code draws the same numbers
  at each call, whether or not it is jitted;
- modules that have no layers, parameters or buffers, because such modules are often data transforms, which
  run on the CPU;
- programs that train: the fix of TPU611 (`backward-on-torchax`) adds the runtime torchax-compat
  to these programs, and the runtime draws new numbers at each call.
  In functions that such a program jits itself, the numbers are constants, so the rule reports them.

## Why it matters on TPU

The Python code of a jitted function runs only once, while JAX traces it.
A random number that Python or NumPy draws during tracing becomes a constant of the compiled program:

- A layer that should be skipped at random is skipped either at every call or at no call.
- Random noise is the same at every call.

JAX raises no error. Without `jit`, each call draws new numbers.

## Without a fix

- Draw the random numbers with torch on the device: torchax draws `torch.rand((), device=x.device)` again at
  each call of a jitted function.
  To skip a layer at random, write `torch.where(torch.rand((), device=x.device) < p, x, layer(x))`.
- Or draw the random number on the host, outside of the jitted function, and pass it to the function as a
  tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Context, Finding, Rule

rule = Rule("TPU619", "Python or NumPy random numbers in traced code", module=__name__, fix=None)

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
    name = ctx.names.qualified(call.func)
    if name not in _DRAWS or not ctx.trace.is_of_model or _is_seeded(ctx):
        return
    if not ctx.program.runtime_handles("random numbers of Python and NumPy"):
        message = f"`{name}` runs only while JAX traces this code, so all compiled calls use the same numbers"
        yield ctx.finding(call, message)


def _is_seeded(ctx: Context) -> bool:
    """Whether traced code of this file seeds the generator, to draw the same numbers at every call."""
    return any(
        at.names.qualified(call.func) in ("random.seed", "numpy.random.seed") and at.trace.path is not None
        for call, at in ctx.calls("seed")
    )
