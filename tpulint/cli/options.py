"""Options that several commands have, and the group of all commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from tpulint import __version__
from tpulint.cli.output import complain
from tpulint.invocation import Given, asked_for
from tpulint.settings import CERTAINTIES, SEVERITIES, TARGETS, Settings


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="tpulint %(version)s")
def cli() -> None:
    """Find PyTorch code that was written for CUDA and does not work on TPU, and rewrite it for TPU.

    The rewritten code uses torchax and JAX.

    Exit codes: 0 if there are no findings; 1 if there are findings; 2 if there is an error, such as bad usage
    or an unreadable file.
    """


def _all(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


COLOR = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="When to color the output.",
    show_default=True,
)

EXIT_ZERO = click.option(
    "--exit-zero", is_flag=True, help="Exit with code 0 instead of 1 if there are findings."
)

NO_CACHE = click.option("--no-cache", is_flag=True, help="Do not read or write the cache of results.")

INPUT = _all(
    click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path()),
    click.option(
        "--select",
        multiple=True,
        metavar="RULES",
        help="Use only these rules: codes (TPU301), prefixes of codes (TPU3) or names, separated by commas."
        "  [default: all rules]",
    ),
    click.option("--ignore", multiple=True, metavar="RULES", help="Do not use these rules.  [default: none]"),
    click.option(
        "--extend-select",
        multiple=True,
        metavar="RULES",
        help="Use these rules in addition to those in --select or in pyproject.toml.",
    ),
    click.option(
        "--exclude",
        multiple=True,
        metavar="GLOBS",
        help="Skip files and folders that match these patterns, instead of the default patterns (.git, .venv,"
        " dist and others).",
    ),
    click.option(
        "--extend-exclude",
        multiple=True,
        metavar="GLOBS",
        help="Skip files and folders that match these patterns, in addition to those of --exclude.",
    ),
    click.option("--force-exclude", is_flag=True, help="Skip excluded files even if they are given as PATH."),
    click.option(
        "--traced",
        type=click.Choice(CERTAINTIES),
        help="Which functions count as traced by JAX. jit: functions that the project jits. forward: also"
        " forward methods of modules. interface: also public functions that take tensors.  [default:"
        " interface]",
    ),
    click.option(
        "--min-severity",
        type=click.Choice(SEVERITIES),
        help="Use only findings of this severity or a higher one. blocks: the program fails, gives wrong"
        " results, or does not use the TPU. slow: the program is slower than it can be. cosmetic: the code"
        f" has no use on TPU.  [default: {SEVERITIES[-1]}]",
    ),
    click.option(
        "--target",
        type=click.Choice(TARGETS),
        help="The library through which fixed programs use the TPU. Rules about another one are not used."
        f"  [default: {TARGETS[0]}]",
    ),
    click.option(
        "--keep-gpu", is_flag=True, help="Use fixes after which the program still runs on CUDA if available."
    ),
    click.option(
        "--config",
        type=click.Path(path_type=Path),
        help="Read the settings from this pyproject.toml.  [default: the nearest pyproject.toml with"
        " tpulint settings, searched upward from the paths]",
    ),
    click.option("--isolated", is_flag=True, help="Do not read any pyproject.toml."),
    click.option(
        "--stdin-filename", metavar="PATH", help="The file name of the code on standard input (if PATH is -)."
    ),
    click.option(
        "-j",
        "--jobs",
        type=click.IntRange(min=1),
        help="The number of processes to use, by default one for each processor.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print only findings and errors, and no summary."),
)

FORMAT = click.option(
    "--output-format",
    type=click.Choice(["full", "concise", "json", "github", "sarif"]),
    default="full",
    show_default=True,
    help="The format of the report.",
)


def note_on_target(settings: Settings, *, quiet: bool) -> None:
    """Say on standard error how many rules are not for the target of a run."""
    if settings.target == TARGETS[0] or quiet:
        return
    from tpulint.registry import rules

    used = [rule for rule in rules() if settings.target in rule.targets]
    complain(
        f"{len(used)} of {len(rules())} rules are for the target {settings.target}; what the others find, "
        "which are about torchax or other libraries, was not looked for",
        kind="note",
    )


def given_input(paths: tuple[str, ...], choices: Mapping[str, Any], *, quiet: bool) -> Given:
    """What the options name, with a note on standard error if that is no file at all."""
    given = asked_for(paths, **choices)
    is_named = any(str(file) in given.named for file in given.project_files)
    has_work = given.files or given.stdin is not None or is_named
    if not has_work and not given.errors and not quiet:
        complain("no Python files to check (files that Git ignores are skipped)", kind="note")
    return given
