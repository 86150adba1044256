"""`tpulint verify`."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from tpulint.cli.options import COLOR, cli
from tpulint.cli.output import complain, write_now

_NEEDS = "verify needs {}, which is not installed: pip install 'tpulint[verify]' torchax-compat"
_TOPOLOGIES = {
    "v4": "v4:2x2x1",
    "v5e": "v5e:2x2",
    "v5p": "v5p:2x2x1",
    "v6e": "v6e:2x2",
    "tpu7x": "tpu7x:2x2x1",
}


@cli.command(short_help="Execute the fixture cases of the rules.")
@click.argument("which", nargs=-1, metavar="[CODE|RULE|CASE]...")
@click.option(
    "--tpu",
    "tpus",
    multiple=True,
    metavar="NAME",
    help="Compile for this TPU, such as v5e or v6e:2x4; may be given several times.  [default: v5e:2x2 and"
    " v6e:2x2]",
)
@click.option(
    "--platform",
    type=click.Choice(["auto", "cpu", "gpu", "tpu"]),
    default="auto",
    show_default=True,
    help="The JAX platform on which the cases are executed. auto: a TPU or GPU that is attached to the"
    " machine. If there is no such device, the CPU is used.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    help="The time limit for each step, in seconds.",
)
@click.option(
    "--fixtures",
    type=click.Path(path_type=Path),
    help="The folder with the fixture cases.  [default: fixtures]",
)
@click.option(
    "--locked",
    is_flag=True,
    help="Execute only the cases that changed since evidence.lock was written, and 3 % of the other cases.",
)
@click.option(
    "--update-lock", is_flag=True, help="Record the outcomes of the executed cases in evidence.lock."
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    help="The number of cases that are executed at the same time, by default 2.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only the cases that are not verified.")
@click.option(
    "--output-format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="The output format.",
)
@COLOR
def verify(
    which: tuple[str, ...],
    tpus: tuple[str, ...],
    platform: str,
    timeout: float,
    fixtures: Path | None,
    locked: bool,
    update_lock: bool,
    jobs: int | None,
    quiet: bool,
    output_format: str,
    color: str,
) -> int:
    """Execute the fixture cases of the rules, and check that each case does what it claims.

    A fixture case is code before and after a fix.
    The command executes each case in plain PyTorch, on torchax without jit, and on torchax with jit.
    It also compiles the case for TPU.

    The arguments are rules (TPU301, item-in-traced-code) or cases (item_in_traced_code/example). Without
    arguments, the command executes the cases of all rules.

    The exit code is 1 if a case failed or if evidence.lock is out of date, and 2 if no case was executed.
    """
    try:
        from tpulint.evidence import Run
        from tpulint.verify import Options, missing_packages
    except ModuleNotFoundError as error:
        raise click.UsageError(_NEEDS.format(error.name)) from None
    if missing := missing_packages():
        raise click.UsageError(_NEEDS.format(", ".join(missing)))
    if (tpus or platform not in ("auto", "cpu")) and (locked or update_lock):
        raise click.UsageError(
            "evidence.lock records the CPU and fixed TPU targets: do not combine it with --platform or --tpu"
        )
    from tpulint.report.paint import paint_for

    options = Options(timeout=timeout, platform=platform, jobs=jobs)
    if tpus:
        options = replace(options, tpus=tuple(_TOPOLOGIES.get(name, name) for name in tpus))
    run = Run(which, fixtures, options, partial(complain, kind="note"))
    if locked or update_lock:
        run.beside_lock(executes_all=not locked, writes_lock=update_lock)
    return run.report(write_now, paint_for(sys.stdout, color), quiet=quiet, as_json=output_format == "json")
