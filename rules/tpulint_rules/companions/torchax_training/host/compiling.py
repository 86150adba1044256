"""How JAX compiles: what it compiled is kept until the program ends, and given to what is the same.

JAX knows a compiled program by the function that it was traced from.
A model that is made anew, for each fold, client or seed, has functions of its own, whose programs are the same
all the same: JAX's cache on disk knows them by what they compute.
Thirteen trainings of one small network took 12 s of the processor so, and 27 without.
A cache that the program, or `JAX_COMPILATION_CACHE_DIR`, keeps elsewhere and for longer is used instead.
XLA takes seconds to compile a step thoroughly for a CPU.
Without its most expensive passes it takes a seventh of that, and the step runs half as fast: so steps are
compiled quickly first, and thoroughly once they were called so often that this pays.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

import jax


def _remove(folder, process):
    if os.getpid() == process:  # not where a copy of the process ends
        shutil.rmtree(folder, ignore_errors=True)


if not jax.config.jax_compilation_cache_dir:
    _folder = tempfile.mkdtemp(prefix="torchax-training-")
    atexit.register(_remove, _folder, os.getpid())
    jax.config.update("jax_compilation_cache_dir", _folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)

#: What has XLA leave out the passes that take it longest, on a CPU.
_QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_cpu_use_fusion_emitters": False,
    "xla_llvm_disable_expensive_passes": True,
}
#: Compiling an array's computation thoroughly takes 15 ms, running it otherwise 10 ns more for each number.
_NUMBERS_THAT_PAY = 1_500_000
_MOST_CALLS = 256


class Jitted:
    """A function that JAX compiles; on a CPU quickly at first, and thoroughly after so many calls that it pays.

    How many these are the sizes of its arrays tell: its results are the same in each run of a program.
    """

    def __init__(self, function, **options):
        self._thorough = jax.jit(function, **options)
        self._calls_left = 0
        if jax.default_backend() == "cpu":
            self._quick = jax.jit(function, compiler_options=_QUICK, **options)
            self._calls_left = None

    def __call__(self, *args):
        if self._calls_left == 0:
            return self._thorough(*args)
        try:
            result = self._quick(*args)
        except ValueError as error:
            if "compiler_options" not in str(error):
                raise
            return self._thorough(*args)  # another function that is compiled calls it
        if self._calls_left is None:
            sizes = [leaf.size for leaf in jax.tree.leaves((args, result)) if isinstance(leaf, jax.Array)]
            self._calls_left = min(_MOST_CALLS, 1 + _NUMBERS_THAT_PAY * len(sizes) // max(1, sum(sizes)))
        self._calls_left -= 1
        return result
