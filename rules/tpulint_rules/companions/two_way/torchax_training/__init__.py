"""Decorators for training on CUDA if it is available, and on torchax otherwise.

On CUDA they return functions and optimizers unchanged: PyTorch's autograd computes the gradients, and torchax
is not imported.
On torchax they have the following effects.

- `@differentiable`: JAX compiles the function and computes its gradients, and `loss.backward()` works as
  usual (`training.py`).
- `@recorded`: `torch.autograd.grad` works in the function (`gradients.py`).
- `compiled(...)`: JAX compiles the `step` of an optimizer, or a function that changes weights without
  gradients (`updates.py`).

Functions are traced by the modules in `tracing/`.
The other folders change functions of torch and torchax, so that they behave as in PyTorch; `amended.py`
imports them.
This package is part of your repository: change it as you need.
"""

import logging
import sys

import torch

_others = [one for name, one in sys.modules.items() if name != __name__ and name.endswith("torchax_training")]
if _others:  # a copy in another package of the program: torch and torchax are patched once
    sys.modules[__name__] = _others[0]
elif torch.cuda.is_available():  # tpulint: ignore[TPU103]

    def differentiable(function=None, **_options):
        """Returns the function unchanged: PyTorch's autograd computes its gradients."""
        return function if function is not None else differentiable

    def recorded(function):
        """Returns the function unchanged."""
        return function

    def compiled(changing):
        """Returns the optimizer or function unchanged."""
        return changing

else:
    # Programs that log messages of all libraries should not log each compilation of JAX.
    logging.getLogger("jax").setLevel(logging.WARNING)

    from .gradients import recorded
    from .host import undivided  # noqa: F401 # patches `DataParallel`
    from .training import differentiable
    from .updates import compiled

    from . import amended  # noqa: F401, I001 # patches torchax, after the imports above

__all__ = ["compiled", "differentiable", "recorded"]
