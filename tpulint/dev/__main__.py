"""`python -m tpulint.dev`: new-rule, render-docs, test-change, verify-in, evidence and measurements."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TextIO

import click

from tpulint.dev import (
    evidence,
    host_time,
    new_rule,
    on_gpu,
    probe_operators,
    program_times,
    render_docs,
    torchtpu_table,
    touched,
    tpu_costs,
    verify_in,
)
from tpulint.evidence.environments import ENVIRONMENTS

ROOT = Path(__file__).parents[2]


@click.group()
def dev() -> None:
    """Work on tpulint itself; run it in a checkout."""


@dev.command("new-rule")
@click.argument("group")
@click.argument("name")
def _new_rule(group: str, name: str) -> None:
    """Write the skeleton of a new rule: its module and its fixture folder.

    GROUP is a package of rules/tpulint_rules, NAME says what the rule finds: item_in_traced_code.
    """
    try:
        written = new_rule.scaffold(ROOT, group, name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    for path in written:
        click.echo(path.relative_to(ROOT))


@dev.command("probe-operators")
def _probe_operators() -> None:
    """Write tpulint/knowledge/operators.py from what the installed torchax does with each operator."""
    for name in probe_operators.write():
        click.echo(f"gives something else on torchax: {name}")


@dev.command("torchtpu-table")
@click.argument("interpreter", default=".venv-torchtpu/bin/python")
def _torchtpu_table(interpreter: str) -> None:
    """Write tpulint/knowledge/torchtpu_api.py from the torch-tpu that INTERPRETER has installed."""
    click.echo(f"{torchtpu_table.write(interpreter)} functions of torch.tpu")


@dev.command("program-times")
def _program_times() -> None:
    """Print how long a step of each training program takes, in PyTorch on the CPU and fixed on torchax."""
    for line in program_times.table(ROOT / "fixtures"):
        click.echo(line)


@dev.command("host-time")
@click.option("--steps", type=click.IntRange(1), default=300, show_default=True)
def _host_time(steps: int) -> None:
    """Print the Python time of a training step on torchax, for a model with about 200 parameters."""
    click.echo(host_time.measure(ROOT, steps).line())


@dev.command("on-gpu")
@click.argument("programs", nargs=-1)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    default=1,
    help="The number of programs to run at the same time; with more than one, times are not exact.",
)
def _on_gpu(programs: tuple[str, ...], jobs: int) -> None:
    """Run PROGRAMS, or all, on a GPU: unchanged, fixed with `--keep-gpu`, and fixed on torchax."""
    try:
        for line in on_gpu.table(ROOT / "fixtures", programs, jobs):
            click.echo(line)
    except OSError as error:
        sys.exit(str(error))


@dev.command("tpu-costs")
def _tpu_costs() -> None:
    """Compile training steps for TPUs, fixed and written by hand in JAX, and write docs/speed.md."""
    for line in tpu_costs.measure(ROOT):
        click.echo(line)
    (ROOT / tpu_costs.PAGE).write_text(tpu_costs.render(ROOT), encoding="utf-8")


@dev.command("render-docs")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a page is out of date.")
def _render_docs(check: bool) -> None:
    """Write the generated pages: docs/rules/, programs.md, coverage.md, runtime.md, evidence.md, speed.md."""
    stale = render_docs.stale(ROOT)
    if not check:
        render_docs.write(ROOT)
    for path in stale:
        click.echo(f"{'stale' if check else 'wrote'}: {path.relative_to(ROOT)}")
    if check and stale:
        sys.exit("run `python -m tpulint.dev render-docs`")


@dev.command("test-change")
def _test_change() -> None:
    """Run the unit tests of the changed files, or of the files of the last commit if none changed."""
    try:
        runs = touched.runs(touched.changed(ROOT), ROOT)
    except OSError as error:
        sys.exit(str(error))
    if not runs:
        click.echo("no unit tests mirror the changed files; `make test` runs all")
    failed = False
    for arguments in runs:
        click.echo(f"pytest {' '.join(arguments)}")
        command = [sys.executable, "-m", "pytest", *touched.PYTEST, *arguments]
        failed |= subprocess.run(command, cwd=ROOT, check=False).returncode not in (0, 5)
    sys.exit(failed)


@dev.command("verify-in")
@click.argument("environment", type=click.Choice(list(ENVIRONMENTS)))
@click.argument("which", nargs=-1, metavar="[RULE|RULE/CASE]...")
@click.option("--all", "everything", is_flag=True, help="Execute unchanged cases, too.")
def _verify_in(environment: str, which: tuple[str, ...], everything: bool) -> None:
    """Execute the changed fixture cases of an ENVIRONMENT of their own, and record their outcomes.

    `make verify-ENVIRONMENT` creates the environment first.
    """
    failed = False
    for line, is_fine in verify_in.verified(ROOT, environment, which, everything=everything):
        click.echo(line)
        failed |= not is_fine
    sys.exit(failed)


@dev.command("evidence")
@click.argument("report", type=click.File())
def _evidence(report: TextIO) -> None:
    """Write data and page of the evidence from a REPORT of `tpulint verify-rules --output-format json`."""
    (ROOT / evidence.DATA).write_text(evidence.data(report.read()), encoding="utf-8")
    (ROOT / evidence.PAGE).write_text(evidence.render(ROOT), encoding="utf-8")
    click.echo(f"wrote: {evidence.DATA}\nwrote: {evidence.PAGE}")


if __name__ == "__main__":
    dev()
