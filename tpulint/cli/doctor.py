"""`tpulint doctor`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tpulint.cli.options import COLOR, cli
from tpulint.cli.output import CLEAN, FINDINGS, write


@cli.command(short_help="Check whether fixed programs can run here, and on which devices.")
@click.option(
    "--python",
    "interpreter",
    metavar="PATH",
    help="The interpreter of the environment to check.  [default: the one that runs tpulint]",
)
@click.option("--no-step", is_flag=True, help="Do not run a training step.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    help="The time limit of each check, in seconds.",
)
@click.option(
    "--output-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The output format.",
)
@COLOR
def doctor(interpreter: str | None, no_step: bool, timeout: float, output_format: str, color: str) -> int:
    """Check an environment: versions, devices, environment variables, and whether a training step runs.

    The checks run in processes of their own, in the current folder, and import torch, torchvision, JAX and
    torchax from the environment. No code of a project is executed, except for modules of the current folder
    that have the names of these packages.

    The exit code is 1 if there is a problem.
    """
    from tpulint.doctor import InterpreterError, diagnose, run_probes

    try:
        probed = run_probes(interpreter or sys.executable, Path.cwd(), timeout=timeout, runs_step=not no_step)
    except InterpreterError as error:
        raise click.UsageError(str(error)) from error
    checks = diagnose(probed)
    if output_format == "json":
        import json

        from tpulint.doctor.checks import as_json

        write(json.dumps({"python": probed.facts["python"], "checks": as_json(checks)}, indent=2) + "\n")
    else:
        from tpulint.report.diagnosis import render
        from tpulint.report.paint import paint_for

        write(render(checks, paint_for(sys.stdout, color)))
    return FINDINGS if any(one.state == "problem" for one in checks) else CLEAN
