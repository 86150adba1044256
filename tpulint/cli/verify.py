"""`tpulint verify`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from tpulint.cli.executing import PLATFORM, require_packages
from tpulint.cli.options import COLOR, cli
from tpulint.cli.output import ERROR, complain, write


class _Command(click.Command):
    """A command whose options may follow modules, but not a program: what follows that is the program's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_interspersed_args = False
        options, _, _ = self.make_parser(ctx).parse_args(list(args))
        words = options["words"]
        from tpulint.proof.names import names_module

        ctx.allow_interspersed_args = isinstance(words, tuple) and any(map(names_module, words[:1]))
        return super().parse_args(ctx, args)


@cli.command(cls=_Command, short_help="Run a program or module before and after `fix`, and compare.")
@click.argument("words", nargs=-1, metavar="[PROGRAM [ARGS]... | FILE.py:MODULE...]", type=click.UNPROCESSED)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="EXPRESSION",
    help="An input of a module, such as 'randn(2, 3, 224, 224)' or 'mask=ones(2, 5)', with the functions of"
    " torch; once for each input.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="The number of optimizer steps after which a program is stopped.  [default: 3]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    help="The time limit for each run.  [default: 600]",
)
@click.option("--memory", metavar="SIZE", help="The memory limit for each run, such as 8G.  [default: 16G]")
@PLATFORM
@click.option(
    "--project",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder to copy before the code runs.  [default: the folder above the program with .git,"
    " pyproject.toml or setup.py, or the program's own]",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="GLOBS",
    help="Do not copy files and folders that match these patterns.",
)
@click.option(
    "--no-trace",
    "traces",
    flag_value=False,
    default=True,
    help="Do not trace the original abstractly, which lists all lines that fail under trace.",
)
@click.option(
    "--tpu",
    "tpus",
    multiple=True,
    metavar="NAME",
    help="Compile the fixed code for this TPU, such as v5e or v6e:2x4; may be given several times. No TPU is"
    " needed.",
)
@click.option(
    "--mesh",
    metavar="AXES",
    help="Compile a module for a mesh of chips, such as data=2,model=4. The first axis splits the batch.",
)
@click.option(
    "--shard",
    multiple=True,
    metavar="RULE",
    help="Split the weights whose names match a pattern, such as 'attn.*weight=model,-': an axis of the mesh,"
    " or -, for each dimension; may be given several times, and the first match counts.",
)
@click.option("--gradients", is_flag=True, help="Compile the backward pass of a module, too.")
@click.option("--largest-batch", is_flag=True, help="Find the largest batch of a module that fits.")
@click.option("--compile-only", is_flag=True, help="Compile for the TPU of --tpu, and run nothing.")
@click.option(
    "--output-format",
    type=click.Choice(["full", "json"]),
    default="full",
    show_default=True,
    help="The format of the report; docs/verifying.md describes the JSON.",
)
@COLOR
def verify(
    words: Sequence[str],
    inputs: Sequence[str],
    output_format: str,
    color: str,
    **choices: Any,
) -> int:
    """Run a program, or modules, before and after `fix`, and compare what they compute.

    The original runs in plain PyTorch on the CPU, where CUDA is emulated. A copy of the project is fixed with
    `fix --unsafe-fixes`, and runs on torchax. Both run in processes of their own, in copies of the project:
    nothing in your project is changed.

    PROGRAM is a Python file. What follows it are its arguments, so put options of tpulint before it. The
    program runs until it has taken --steps steps of an optimizer, or until its end. Its losses, parameters,
    buffers and printed lines are compared.

    FILE.py:MODULE is a class, a call such as `Net(depth=2)`, or a function, with --input for its inputs. Its
    results and gradients are compared. Several may be given.

    Without arguments, the targets in the table [tool.tpulint.verify] of pyproject.toml are verified.

    The exit code is 0 if all targets are the same, 1 if one differs, and 2 if one was not run.
    """
    require_packages("verify", libtpu=bool(choices["tpus"]))
    from tpulint.engine.interrupts import signals_as_interrupts
    from tpulint.proof.command_line import read_command_line
    from tpulint.proof.results import as_json
    from tpulint.proof.text import render
    from tpulint.proof.verification import verify as verify_targets
    from tpulint.report.paint import paint_for

    if choices["compile_only"] and not choices["tpus"]:
        raise click.UsageError("--compile-only needs --tpu, which says what to compile for")
    try:
        options, targets = read_command_line(words, inputs, choices)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if not targets:
        complain(
            "there is nothing to verify: name a program or a module, or list targets in [tool.tpulint.verify]"
        )
        return ERROR
    with signals_as_interrupts():  # end the processes, and remove the copies
        report = verify_targets(targets, options, partial(complain, kind="note"))
    if output_format == "json":
        write(json.dumps(as_json(report), indent=2) + "\n")
    else:
        write(render(report, paint_for(sys.stdout, color)))
    return report.exit_code
