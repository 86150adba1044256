"""Training with torch's optimizers on torchax: the marks that a program puts on its functions and optimizers.

A function marked `@differentiable` is compiled by JAX, which takes its gradients; torch's `backward()` hands
them on (`training.py`).
Within `@recorded` ones `torch.autograd.grad` works, too (`gradients.py`).
What is `compiled` is: the `step` of an optimizer, or a function that changes weights without gradients
(`updates.py`).
What `DataParallel` wrapped is `undivided`: the wrapper stays, and calls the module (`host/undivided.py`).
How functions are traced is in `tracing/`; the other folders make torchax do what these rely on (`amended.py`).
This folder belongs to the program: change it as it needs.
"""

import sys

_others = [one for name, one in sys.modules.items() if name != __name__ and name.endswith("torchax_training")]
if _others:  # of a package of the program, which has it as well: torchax is changed once
    sys.modules[__name__] = _others[0]
else:
    import logging

    # What a program logs of all libraries, by `logging.basicConfig(level=logging.DEBUG)`, is not what JAX
    # compiles, of which there is some in this folder.
    logging.getLogger("jax").setLevel(logging.WARNING)

    from .host import xla_flags  # noqa: F401 # ahead of all that asks XLA
    from .gradients import recorded  # isort: skip
    from .host.undivided import undivided
    from .training import differentiable
    from .updates import compiled

    from . import amended  # noqa: F401, I001 # for what it changes, after what the above changes

    __all__ = ["compiled", "differentiable", "recorded", "undivided"]
