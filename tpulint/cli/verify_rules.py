"""`tpulint verify-rules`."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from tpulint.cli.executing import PLATFORM, require_packages
from tpulint.cli.options import COLOR, cli
from tpulint.cli.output import complain, write_now
from tpulint.proof.names import topology


@cli.command("verify-rules", short_help="Execute the fixture cases of rules; for authors of rules.")
@click.argument("which", nargs=-1, metavar="[CODE|RULE|CASE]...")
@click.option(
    "--tpu",
    "tpus",
    multiple=True,
    metavar="NAME",
    help="Compile for this TPU, such as v5e or v6e:2x4; may be given several times.  [default: v5e:2x2 and"
    " v6e:2x2]",
)
@PLATFORM
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
def verify_rules(
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

    Authors of rules use this command; `tpulint verify` runs your own programs.

    The arguments are rules (TPU301, item-in-traced-code) or cases (item_in_traced_code/example). Without
    arguments, the command executes the cases of all rules.

    The exit code is 1 if a case failed or if evidence.lock is out of date, and 2 if no case was executed.
    """
    require_packages("verify-rules")
    if (tpus or platform not in ("auto", "cpu")) and (locked or update_lock):
        raise click.UsageError(
            "evidence.lock records the CPU and fixed TPU targets: do not combine it with --platform or --tpu"
        )
    from tpulint.evidence import Run
    from tpulint.report.paint import paint_for
    from tpulint.verify import Options

    options = Options(timeout=timeout, platform=platform, jobs=jobs)
    if tpus:
        options = replace(options, tpus=tuple(map(topology, tpus)))
    run = Run(which, fixtures, options, partial(complain, kind="note"))
    if locked or update_lock:
        run.beside_lock(executes_all=not locked, writes_lock=update_lock)
    return run.report(write_now, paint_for(sys.stdout, color), quiet=quiet, as_json=output_format == "json")
