"""Functions of torch that work on the host and not under torchax, and what takes their place.

Measured on torch 2.13.0, torchax 0.0.14.dev20261026, jax 0.10.2.
"""

from __future__ import annotations

ZERO = "returns all zeros under torchax, without an error"

#: Transforms of functions: what they do under torchax. JAX has each under the same name.
JACOBIANS = {
    "torch.func.hessian": "raises under torchax",
    "torch.func.jacfwd": ZERO,
    "torch.func.jacrev": ZERO,
}

_LOST = "returns zeros under torchax if outputs depend on inputs through `F.linear`, without an error"

#: The same, of a function and its inputs: what they do, and what JAX calls those that it has.
AT_INPUTS = {
    "torch.autograd.functional.hessian": (ZERO, "jax.hessian"),
    "torch.autograd.functional.jacobian": (ZERO, "jax.jacrev"),
    "torch.autograd.functional.hvp": (_LOST, None),
    "torch.autograd.functional.jvp": (_LOST, None),
    "torch.autograd.functional.vhp": (_LOST, None),
    "torch.autograd.functional.vjp": (_LOST, None),
}

#: Control flow over tensors, and what JAX calls it.
BRANCHES = {"torch.cond": "jax.lax.cond"}

#: Functions that save the state of random numbers and put it back.
FORKS = frozenset({"torch.random.fork_rng"})
