"""Keeps what JAX compiled until the program ends, and gives it to what is the same.

JAX knows a compiled program by the function that it was traced from.
A model that is made anew, for each fold, client or seed, has functions of its own, whose programs are the same
all the same: JAX's cache on disk knows them by what they compute.
Thirteen trainings of one small network took 12 s of the processor so, and 27 without.
A cache that the program, or `JAX_COMPILATION_CACHE_DIR`, keeps elsewhere and for longer is used instead.
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
