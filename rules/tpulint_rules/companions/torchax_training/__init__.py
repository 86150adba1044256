"""Training with torch's optimizers on torchax: the marks that a program puts on its functions and optimizers.

A function marked `@differentiable` is compiled by JAX, which takes its gradients; torch's `backward()` hands
them on (`training.py`).
Within `@recorded` ones `torch.autograd.grad` works, too (`gradients.py`).
The `step` of an optimizer that is `compiled` is (`optimizers.py`).
The other files make torchax do what these rely on.
This folder belongs to the program: change it as it needs.
"""

import logging

from .gradients import recorded
from .optimizers import compiled
from .training import differentiable

# What a program logs of all libraries, by `logging.basicConfig(level=logging.DEBUG)`, is not what JAX compiles.
logging.getLogger("jax").setLevel(logging.WARNING)

__all__ = ["compiled", "differentiable", "recorded"]
