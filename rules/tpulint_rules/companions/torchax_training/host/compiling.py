"""How JAX compiles: what it compiled is kept until the program ends, and given to what is the same.

JAX knows a compiled program by the function that it was traced from.
A model that is made anew, for each fold, client or seed, has functions of its own, whose programs are the same
all the same: JAX's cache on disk knows them by what they compute.
Thirteen trainings of one small network took 12 s of the processor so, and 27 without.
A cache that the program, or `JAX_COMPILATION_CACHE_DIR`, keeps elsewhere and for longer is used instead.
XLA takes seconds to compile a step for a CPU.
Unoptimized it takes a seventh of that, and the step takes two to ten times as long: so what is called a few
times, as with the shape of a last batch, is compiled quickly, and what goes on being called is compiled again.
Without XLA's own emitters of fusions and LLVM's most expensive passes that takes two thirds, and steps as long.
"""

from __future__ import annotations

import atexit
import functools
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

#: What has XLA leave out passes that take long and bring steps nothing, on a CPU: its versions know not all.
_OPTIONS = {
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_cpu_use_fusion_emitters": False,
    "xla_llvm_disable_expensive_passes": True,
}
#: How much XLA optimizes, from 0 up to 3.
_LEVEL = "xla_backend_optimization_level"
#: After so many calls a function is one of those that go on being called.
_FEW_CALLS = 4
#: It is at once where its arrays have so many numbers on average: running it takes longer than compiling.
_MANY_NUMBERS = 1_500_000


@functools.cache
def _options(level):
    return {name: value for name, value in {**_OPTIONS, _LEVEL: level}.items() if _is_known(name, value)}


@functools.cache
def _is_known(name, value):
    try:
        jax.jit(lambda: 0, compiler_options={name: value})()
    except jax.errors.JaxRuntimeError:
        return False
    return True


class Jitted:
    """A function that JAX compiles; on a CPU quickly at first, and optimized once it is called again and again.

    When that is, calls and sizes tell, not times: its results are the same in each run of a program.
    """

    def __init__(self, function, **options):
        self._within = self._optimized = self._used = jax.jit(function, **options)
        self._quick_calls_left = 0
        if jax.default_backend() == "cpu":
            self._optimized = jax.jit(function, compiler_options=_options(level=1), **options)
            self._used = jax.jit(function, compiler_options=_options(level=0), **options)
            self._quick_calls_left = _FEW_CALLS

    def __call__(self, *args):
        try:
            result = self._used(*args)
        except ValueError as error:
            if "compiler_options" not in str(error):
                raise
            return self._within(*args)  # another function that is compiled calls it
        if self._quick_calls_left:
            self._quick_calls_left -= 1
            if not self._quick_calls_left or _has_many_numbers((args, result)):
                self._quick_calls_left, self._used = 0, self._optimized
        return result


def _has_many_numbers(values):
    sizes = [leaf.size for leaf in jax.tree.leaves(values) if isinstance(leaf, jax.Array)]
    return sum(sizes) > _MANY_NUMBERS * len(sizes)
