"""`tpulint report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tpulint.cli.options import INPUT, NO_CACHE, cli, given_input, note_on_target
from tpulint.cli.output import CLEAN, complain, finish, write
from tpulint.finding import FileError

_PAGE = "tpulint-report.html"


@cli.command(short_help="Write a page about the work to bring a project to TPU.")
@INPUT
@click.option(
    "--evidence",
    "evidence",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file with results of `tpulint verify --output-format json`; may be given several times.",
)
@click.option(
    "--output-format",
    type=click.Choice(["html", "markdown", "json"]),
    default="html",
    show_default=True,
    help="The format of the page.",
)
@click.option(
    "-o",
    "--output-file",
    type=click.Path(path_type=Path),
    help=f"Write the page to this file.  [default: {_PAGE}; standard output for markdown and json]",
)
@NO_CACHE
def report(
    paths: tuple[str, ...],
    evidence: tuple[Path, ...],
    output_format: str,
    output_file: Path | None,
    no_cache: bool,
    jobs: int | None,
    quiet: bool,
    **choices: Any,
) -> int:
    """Write a page about the work to bring a project to TPU.

    For each program, the page shows the findings by severity, which of them fixes remove, and what is left to
    do by hand. No file of the project is changed, and no code of the project is executed.

    PATH is a file or a folder. Without PATH, the page is about the current folder.
    """
    if "-" in paths:
        raise click.UsageError("a report is about files: standard input is not read")
    given = given_input(paths, choices, quiet=quiet)
    note_on_target(given.settings, quiet=quiet)
    if not given:
        return finish(given.errors, CLEAN)
    from tpulint.overview import collect

    overview = collect(given, evidence, jobs=jobs, cache=not no_cache)
    if output_format == "json":
        import json

        from tpulint.overview.content import as_json

        text = json.dumps(as_json(overview), indent=2) + "\n"
    else:
        from tpulint.overview import pages

        text = pages.html(overview) if output_format == "html" else pages.markdown(overview)
    errors = [*given.errors, *(FileError(path, message) for path, message in overview.unanalyzed)]
    if output_file is None and output_format != "html":
        write(text)
        return finish(errors, CLEAN)
    target = output_file or Path(_PAGE)
    try:
        target.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    except OSError as error:
        errors.append(FileError(str(target), f"cannot be written: {error.strerror or error}"))
    else:
        if not quiet:
            complain(f"wrote {target}", kind="note")
    return finish(errors, CLEAN)
