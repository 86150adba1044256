"""The marks of a program that trains on CUDA where there is any, and elsewhere with JAX.

On CUDA functions and optimizers stay as they are: torch's autograd differentiates them.
Elsewhere a function marked `@differentiable` is compiled by JAX, which takes its gradients; torch's
`backward()` hands them on (`training.py`).
Within `@recorded` ones `torch.autograd.grad` works, too (`gradients.py`).
What is `compiled` is: the `step` of an optimizer, or a function that changes weights without gradients
(`updates.py`).
How functions are traced is in `tracing/`; the other folders make torchax do what these rely on (`amended.py`).
This folder belongs to the program: change it as it needs.
"""

import logging
import sys

import torch

_others = [one for name, one in sys.modules.items() if name != __name__ and name.endswith("torchax_training")]
if _others:  # of a package of the program, which has it as well: torchax is changed once
    sys.modules[__name__] = _others[0]
elif torch.cuda.is_available():  # tpulint: ignore[TPU103]

    def differentiable(function=None, **_options):
        """The function as it is."""
        return function if function is not None else differentiable

    def recorded(function):
        """The function as it is."""
        return function

    def compiled(changing):
        """The optimizer or function as it is."""
        return changing

else:
    # What a program logs of all libraries is not what JAX compiles, of which there is some in this folder.
    logging.getLogger("jax").setLevel(logging.WARNING)

    from .gradients import recorded
    from .host import undivided  # noqa: F401 # for what it makes of the wrappers that stay
    from .training import differentiable
    from .updates import compiled

    from . import amended  # noqa: F401, I001 # for what it changes, after what the above changes

__all__ = ["compiled", "differentiable", "recorded"]
