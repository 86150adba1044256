"""The processor time of a step of each training program: unchanged on PyTorch, and fixed on torchax.

Unlike the time on a clock, it hardly depends on what else the machine does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from statistics import median

from tpulint.fixture import Case, cases
from tpulint.testing import rewritten
from tpulint.verify import recipe as recipes
from tpulint.verify.conduct import laid_out, main_file
from tpulint.verify.platform import choose
from tpulint.verify.recipe import Recipe
from tpulint.verify.script import Ended, Launch

_COLUMNS = (
    "program",
    "number of steps",
    "PyTorch on the CPU: a step (ms)",
    "torchax: the first two steps, with compilation (s)",
    "torchax: a later step (ms)",
    "torchax: a later step (PyTorch on the CPU = 1)",
)
HEAD = (f"| {' | '.join(_COLUMNS)} |", f"| --- |{' ---: |' * 5}")
_TIMEOUT = 600.0

# JAX's host backend would else compute on all processors, and torch on one.
_ONE_THREAD = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}

# Options of programs: for steps after the last compilation, and for steps in which the computation counts.
_OPTIONS = {
    "actor_critic": ("--episodes 40",),
    "classifier": ("--epochs 6",),
    "contrastive": ("--epochs 12",),
    "distributed": ("9 3",),
    "distributed_env": ("--epochs 6",),
    "distributed_metrics": ("--epochs 6",),
    "distributed_nodes": ("--epochs 6",),
    "distributed_spawn": ("--epochs 6",),
    "ema": ("--epochs 12",),
    "gan": ("--niter 4", "--niter 4 --ngf 48 --ndf 48"),
    "kept_state": ("--steps 48",),
    "lbfgs": ("--steps 8",),
    "lstm_language_model": ("", "--emsize 512 --nhid 512"),
    "noise": ("--epochs 4",),
    "vae": ("--epochs 9",),
    "wgan_gp": ("--epochs 6",),
}

# How often both are run in turn; the quicker run counts.
_TURNS = 2


def table(fixtures: Path) -> Iterator[str]:
    """The rows of the table, each as soon as its program was run; one at a time, so that none waits."""
    yield from HEAD
    for case in cases(fixtures):
        if case.rule == "programs" and case.run is not None:
            recipe = recipes.read(recipes.execute(case.run))
            if recipe.losses and not recipe.not_executed:
                own = (" ".join(recipe.arguments),)
                for options in _OPTIONS.get(case.name, own):
                    yield _row(case, replace(recipe, arguments=tuple(options.split())))


def _row(case: Case, recipe: Recipe) -> str:
    environment = {**choose("auto").environment, **_ONE_THREAD, **recipe.environment}
    launch, main = Launch(environment, _TIMEOUT, recipe.arguments), main_file(case, recipe)
    plain, torchax = [], []
    with tempfile.TemporaryDirectory(prefix="tpulint-times-") as folder:
        original = laid_out(case, case.before, Path(folder, "original"))
        ported = laid_out(case, rewritten(case), Path(folder, "fixed"))
        for _ in range(_TURNS):
            plain.append(launch.reference(original, main))
            torchax.append(launch.unwatched(ported, main))
    name = f"`{' '.join((case.name, *recipe.arguments))}`"
    if any(run.status for run in (*plain, *torchax)):
        return f"| {name} | failed | | | | |"
    _, slow = min((seconds(run) for run in plain), key=itemgetter(1))
    start, fast = min((seconds(run) for run in torchax), key=itemgetter(1))
    cells = (
        f"{len(plain[0].record.losses)}",
        f"{slow * 1e3:.1f}",
        f"{start:.1f}",
        f"{fast * 1e3:.1f}",
        f"{fast / slow:.1f}",
    )
    return f"| {name} | {' | '.join(cells)} |"


def seconds(ended: Ended) -> tuple[float, float]:
    """From the first call of a module to the third loss, and for a step in the last third.

    JAX compiles the loss in the first step, the optimizer in the second, and the whole step when it has
    repeated; what is between the steps, such as an evaluation, falls out with the median.
    """
    times = [loss.at for loss in ended.record.losses]
    steps = [later - earlier for earlier, later in pairwise(times)]
    return times[2] - ended.record.began, median(steps[-(-len(steps) * 2 // 3) :])
