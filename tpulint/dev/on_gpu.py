"""What the programs do on a GPU: as they are, fixed so as to keep CUDA, and fixed so as to run on torchax.

Real CUDA shows what its emulation cannot, and a GPU under JAX has a memory of its own, as a TPU has.
`verify` needs neither.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from tpulint.dev.program_times import seconds
from tpulint.fixture import Case, cases
from tpulint.testing import rewritten
from tpulint.verify import program
from tpulint.verify import recipe as recipes
from tpulint.verify.claims import Outcome, Word
from tpulint.verify.conduct import laid_out, main_file
from tpulint.verify.platform import choose
from tpulint.verify.recipe import Recipe
from tpulint.verify.script import Ended, Launch

_COLUMNS = (
    "program",
    "original on CUDA, compared with emulated CUDA",
    "fixed with `--keep-gpu` on CUDA, compared with the original on CUDA",
    "fixed on torchax, compared with emulated CUDA",
    "original on CUDA: a step (ms)",
    "fixed with `--keep-gpu` on CUDA: a step (ms)",
    "fixed on torchax: a step (ms)",
)
_TIMEOUT = 240.0


def table(fixtures: Path, names: tuple[str, ...], jobs: int) -> Iterator[str]:
    """The rows of the table for the programs named, or for all, as they end; times need one job to be true.

    Raises:
        OSError: where JAX finds no GPU.
    """
    platform = choose("gpu")
    if platform.name != "gpu":
        raise OSError(platform.note)
    # Several processes share the GPU's memory.
    shared = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # tpulint: ignore[JAX105]
    environment = {**platform.environment, **shared}
    found = [case for case in cases(fixtures) if case.rule == "programs" and case.run is not None]
    yield f"| {' | '.join(_COLUMNS)} |"
    yield f"| {' | '.join('---' for _ in _COLUMNS)} |"
    chosen = [case for case in found if not names or case.name in names]
    with ProcessPoolExecutor(jobs) as pool:  # fixing takes longer than a GPU does
        for row in as_completed(pool.submit(_row, case, environment) for case in chosen):
            yield row.result()


def _row(case: Case, environment: dict[str, str]) -> str:
    assert case.run is not None
    recipe = recipes.read(recipes.execute(case.run))
    if recipe.not_executed:
        return f"| {case.name} | {recipe.not_executed} | | | | | |"
    launch = Launch({**environment, **recipe.environment}, _TIMEOUT, recipe.arguments)
    main = main_file(case, recipe)
    keeping = replace(case.settings, keep_gpu=True)
    with tempfile.TemporaryDirectory(prefix="tpulint-gpu-") as folder:
        original = laid_out(case, case.before, Path(folder, "original"))
        kept = laid_out(case, rewritten(case, keeping), Path(folder, "kept"))
        ported = laid_out(case, rewritten(case), Path(folder, "fixed"))
        emulated = launch.reference(original, main)
        on_cuda, kept_there = (launch.unwatched(each, main) for each in (original, kept))
        on_torchax = launch.on_torchax(ported, main)
        paced = launch.unwatched(ported, main)
    cells = (
        _compared(on_cuda, emulated, recipe),
        _compared(kept_there, on_cuda, recipe),
        _compared(on_torchax, emulated, recipe),
        *(_step(ended) for ended in (on_cuda, kept_there, paced)),
    )
    return f"| {case.name} | {' | '.join(cells)} |"


def _compared(ended: Ended, reference: Ended, recipe: Recipe) -> str:
    outcome = program.outcome(ended, reference, recipe, set())
    if outcome == Outcome(Word.HOST, "nothing ran on torchax"):  # which is all that CUDA is asked for
        outcome = Outcome(Word.EQUAL)
    return str(outcome).replace("\n", " ").replace("|", "/")


def _step(ended: Ended) -> str:
    return f"{seconds(ended)[1] * 1e3:.1f}" if ended.status == 0 and len(ended.record.losses) > 2 else ""
