"""`tpulint check`, `rules`, `explain` and `version`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tpulint import __version__
from tpulint.cli.options import COLOR, EXIT_ZERO, FORMAT, INPUT, NO_CACHE, cli, given_input, note_on_target
from tpulint.cli.output import CLEAN, FINDINGS, finish, write
from tpulint.finding import Edits, FileError, Finding
from tpulint.invocation import place_asked_for

if TYPE_CHECKING:
    from tpulint.rules_api import Rule


@cli.command()
@INPUT
@FORMAT
@click.option(
    "-o",
    "--output-file",
    type=click.Path(path_type=Path),
    help="Write the report to this file.  [default: standard output]",
)
@click.option("--statistics", is_flag=True, help="Count the findings by rule instead of listing them.")
@NO_CACHE
@click.option("--show-files", is_flag=True, help="List the files that would be checked, and check nothing.")
@EXIT_ZERO
@COLOR
def check(
    paths: tuple[str, ...],
    output_format: str,
    output_file: Path | None,
    statistics: bool,
    no_cache: bool,
    show_files: bool,
    exit_zero: bool,
    color: str,
    jobs: int | None,
    quiet: bool,
    **choices: Any,
) -> int:
    """Report code that fails, or gives different results, on TPU.

    PATH is a file, a folder, or - for standard input. Without PATH, tpulint checks the current folder.
    """
    if statistics and output_format not in ("full", "concise", "json"):
        raise click.UsageError("--statistics works only with the formats full, concise and json")
    given = given_input(paths, choices, quiet=quiet)
    note_on_target(given.settings, quiet=quiet)
    errors = list(given.errors)
    if show_files:
        write("".join(f"{file}\n" for file in sorted([*given.files, *given.project_files])))
        return finish(errors, CLEAN)
    findings: list[Finding] = []
    if given:
        from tpulint.engine.run import analyse

        analysis = analyse(given.files, given.settings, jobs=jobs, cache=not no_cache, stdin=given.stdin)
        findings = analysis.findings
        errors += analysis.errors
        if given.project_files:
            from tpulint.engine import project_files
            from tpulint.engine.files import contents_of

            contents, unread = contents_of(given.project_files)
            others = project_files.analyse(contents, given.settings)
            findings = sorted([*findings, *others.findings], key=lambda finding: finding.sort_key)
            errors += [*unread, *others.errors]
    from tpulint.report.formats import has_edits, render
    from tpulint.report.paint import Paint, paint_for

    paint = Paint(on=color == "always") if output_file else paint_for(sys.stdout, color)
    edits: Edits = {}
    if has_edits(output_format) and not statistics:
        from tpulint.engine.edits import edits_of

        edits = edits_of(findings, dict([given.stdin]) if given.stdin else {})
    report = render(
        findings, errors, output_format, paint, edits=edits, statistics=statistics, summary=not quiet
    )
    if output_file is None:
        write(report)
    else:
        try:
            output_file.write_text(report, encoding="utf-8", errors="backslashreplace", newline="")
        except OSError as error:
            errors.append(FileError(str(output_file), f"cannot be written: {error.strerror or error}"))
    return finish(errors, FINDINGS if findings and not exit_zero else CLEAN)


@cli.command()
@click.option(
    "--output-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The output format.",
)
@COLOR
def rules(output_format: str, color: str) -> None:
    """List all rules."""
    from tpulint.registry import rules as registered
    from tpulint.report import page
    from tpulint.report.paint import paint_for

    if output_format == "json":
        write(page.listing_json(registered()))
    else:
        write(page.listing(registered(), paint_for(sys.stdout, color)))


@cli.command()
@click.argument("subjects", nargs=-1, metavar="CODE | [PATH]...")
@click.option(
    "--at",
    metavar="FILE:LINE",
    help="Explain this line: its inferred types, and why each rule reports the line or not.",
)
@COLOR
def explain(subjects: tuple[str, ...], at: str | None, color: str) -> int:
    """Show the documentation of a rule, or explain a line with --at.

    CODE is the code or the name of a rule.

    With --at FILE:LINE, the command shows the types that tpulint infers on the line, and the chain of calls
    by which JAX traces the line. For each rule, it shows what the rule reports, or which condition for a
    report does not hold. The files in PATH are analyzed together with FILE. Without PATH, all files of the
    project to which FILE belongs are analyzed.
    """
    from tpulint.report.paint import paint_for

    paint = paint_for(sys.stdout, color)
    if at is None:
        if len(subjects) != 1:
            raise click.UsageError("give the code or name of one rule, or --at FILE:LINE")
        from tpulint.report import page

        page.show(_rule(subjects[0]), sys.stdout, paint)
        return CLEAN
    path, row, given = place_asked_for(at, subjects)
    from tpulint.engine.inquiry import InquiryError, inquire
    from tpulint.report.inquiry import render

    try:
        write(render(inquire(path, row, given.files, given.settings), paint))
    except InquiryError as error:
        return finish([FileError(str(path), str(error))], CLEAN)
    return finish(given.errors, CLEAN)


@cli.command()
def version() -> None:
    """Print the version."""
    write(f"tpulint {__version__}\n")


def _rule(text: str) -> Rule:
    from tpulint.registry import rules as registered

    wanted = text.lower().replace("_", "-")
    for rule in registered():
        if wanted in (rule.code.lower(), rule.name, *rule.former):
            return rule
    import difflib

    near = difflib.get_close_matches(wanted, [rule.name for rule in registered()], 1)
    hint = f"did you mean `{near[0]}`?" if near else "`tpulint rules` lists them"
    raise click.UsageError(f"no rule is called `{text}`; {hint}")
