"""How JAX compiles: a compilation cache for the duration of the program, and quick compilation on CPUs.

JAX identifies a compiled program by the function that it was traced from.
A model that is created again, for each fold, client or seed, has new functions with the same programs.
JAX's cache on disk recognizes programs by their operations, so `enable()` sets one up in a temporary folder:
13 trainings of one small network took 12 s of CPU time with it, and 27 s without.
If the program or `JAX_COMPILATION_CACHE_DIR` configures a cache, that one is used instead.

On a CPU, XLA takes seconds to compile a step.
Without optimization it takes a seventh of that time, and the step takes two to ten times as long.
So a function is compiled without optimization at first, since it may be called only a few times, as for the
shape of a last batch, and with optimization once it is called more often.
A function that is called with many shapes is compiled with optimization only for shapes that occur very
often.
The optimized compilation leaves out XLA's fusion emitters and LLVM's most expensive passes: it takes two
thirds of the time, and steps are as fast.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from ..patches.declarations import setup

#: Options to skip passes that take long and do not speed up steps on a CPU; some versions of XLA lack some.
_OPTIONS = {
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_cpu_use_fusion_emitters": False,
    "xla_llvm_disable_expensive_passes": True,
}
#: The option for how much XLA optimizes, from 0 to 3.
_LEVEL = "xla_backend_optimization_level"
#: After this many calls, a function is compiled with optimization.
FEW_CALLS = 4
#: The same for one of many shapes, each of which may have few calls. For each shape of a small transformer,
#: compiling with optimization takes as long as 118 steps save by it.
FEW_CALLS_OF_MANY_SHAPES = 64
#: With more elements per array on average, it is after the first call: running takes longer than compiling.
_MANY_NUMBERS = 1_500_000


@setup(
    "jax_compilation_cache_dir",
    why="A model that is created again is compiled again, since JAX identifies programs by their functions.",
)
def _use_cache() -> Any:
    if jax.config.jax_compilation_cache_dir:
        return lambda: None
    folder = tempfile.mkdtemp(prefix="torchax-compat-")
    remove = functools.partial(_remove, folder, os.getpid())
    atexit.register(remove)
    seconds = jax.config.jax_persistent_cache_min_compile_time_secs
    _configure_cache(folder, seconds=0)

    def undo() -> None:
        _configure_cache(None, seconds=seconds)
        atexit.unregister(remove)
        remove()

    return undo


def _configure_cache(folder: Any, *, seconds: Any) -> None:
    compilation_cache.reset_cache()  # JAX reads the folder only once
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", seconds)


def _remove(folder: Any, process: Any) -> None:
    if os.getpid() == process:  # not when a forked process ends
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _options(level: Any) -> Any:
    return {name: value for name, value in {**_OPTIONS, _LEVEL: level}.items() if _is_known(name, value)}


@functools.cache
def _is_known(name: str, value: Any) -> bool:
    try:
        jax.jit(lambda: 0, compiler_options={name: value})()
    except jax.errors.JaxRuntimeError:
        return False
    return True


class Jitted:
    """A function that JAX compiles; on a CPU quickly at first, and optimized once it is called repeatedly.

    `took` is called with the seconds of each call that compiles it, and `few_calls` is the number of calls
    before it is optimized.
    The number of calls and the sizes of arrays decide when that is, not times: each run of a program gives
    the same results.
    """

    def __init__(
        self, function: Callable[..., Any], took: Any = None, few_calls: Any = FEW_CALLS, **options: Any
    ) -> None:
        self._took, self._compiled = took, None
        self._within = self._optimized = self._used = jax.jit(function, **options)
        self._quick_calls_left = 0
        if jax.default_backend() == "cpu":
            self._optimized = jax.jit(function, compiler_options=_options(level=1), **options)
            self._used = jax.jit(function, compiler_options=_options(level=0), **options)
            self._quick_calls_left = few_calls
        if not self._quick_calls_left:
            self._used = self._optimized

    @property
    def is_optimized(self) -> bool:
        """Whether the next call is one of the program that XLA optimizes."""
        return self._used is self._optimized

    def text(self, *args: Any) -> str:
        """The program for some arguments, before XLA compiles it."""
        text: str = self._used.lower(*args).as_text()
        return text

    def __call__(self, *args: Any) -> Any:
        """Call the compiled function."""
        if self._used is not self._compiled:
            return self._timed(args)
        return self._computed(args)

    def _timed(self, args: Any) -> Any:
        """The result of a call for which JAX compiles the function."""
        self._compiled, began = self._used, time.perf_counter()
        result = self._computed(args)
        if self._took is not None:
            self._took(time.perf_counter() - began)
        return result

    def _computed(self, args: Any) -> Any:
        try:
            result = self._used(*args)
        except ValueError as error:
            if "compiler_options" not in str(error):
                raise
            return self._within(*args)  # it is called within another compiled function
        if self._quick_calls_left:
            self._quick_calls_left -= 1
            if not self._quick_calls_left or _has_many_numbers((args, result)):
                self._quick_calls_left, self._used = 0, self._optimized
        return result


def _has_many_numbers(values: Any) -> bool:
    sizes: list[int] = [leaf.size for leaf in jax.tree.leaves(values) if isinstance(leaf, jax.Array)]
    return sum(sizes) > _MANY_NUMBERS * len(sizes)
