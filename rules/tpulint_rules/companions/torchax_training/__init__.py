"""Training with PyTorch's autograd and optimizers on torchax.

- `@differentiable`: JAX compiles the function and computes its gradients, and `loss.backward()` works as
  usual (`training.py`).
- `@recorded`: `torch.autograd.grad` works in the function (`gradients.py`).
- `compiled(...)`: JAX compiles the `step` of an optimizer, or a function that changes weights without
  gradients (`updates.py`).
- `undivided(module)`: a wrapper like `DataParallel` that calls the module directly, since one process drives
  all chips (`host/undivided.py`).

Functions are traced by the modules in `tracing/`.
The other folders change functions of torch and torchax, so that they behave as in PyTorch; `amended.py`
imports them.
This package is part of your repository: change it as you need.
"""

import sys

_others = [one for name, one in sys.modules.items() if name != __name__ and name.endswith("torchax_training")]
if _others:  # a copy in another package of the program: torch and torchax are patched once
    sys.modules[__name__] = _others[0]
else:
    import logging

    # A program that logs messages of all libraries, by `logging.basicConfig(level=logging.DEBUG)`, should not
    # log each compilation of JAX.
    logging.getLogger("jax").setLevel(logging.WARNING)

    from .host import xla_flags  # noqa: F401 # before JAX initializes XLA
    from .gradients import recorded  # isort: skip
    from .host.undivided import undivided
    from .training import differentiable
    from .updates import compiled

    from . import amended  # noqa: F401, I001 # patches torchax, after the imports above

    __all__ = ["compiled", "differentiable", "recorded", "undivided"]
