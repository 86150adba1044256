"""Arguments in, exit code out.

0: clean; 1: findings; 2: bad usage, a file that could not be read, or an internal error.
Whatever a command needs is imported when it runs, so that `--help` and a cached check start at once.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click

from tpulint import __version__
from tpulint.finding import FileError, Finding
from tpulint.frames import roomy
from tpulint.invocation import Given, UsageError, asked_for, place_asked_for
from tpulint.settings import CERTAINTIES, SettingsError

if TYPE_CHECKING:
    from tpulint.report.paint import Paint
    from tpulint.rule import Rule

CLEAN, FINDINGS, ERROR, INTERRUPTED, CLOSED_PIPE = 0, 1, 2, 130, 141
_NEEDS = "verify needs {}, which is not installed: pip install 'tpulint[verify]'"
_TOPOLOGIES = {
    "v4": "v4:2x2x1",
    "v5e": "v5e:2x2",
    "v5p": "v5p:2x2x1",
    "v6e": "v6e:2x2",
    "tpu7x": "tpu7x:2x2x1",
}
_TEXT_FORMATS = ("full", "concise")


def main() -> NoReturn:
    """The `tpulint` command."""
    gc.set_threshold(100_000)  # modules, which are most of what a short run makes, are no garbage
    code = run(sys.argv[1:])
    gc.freeze()  # the process ends: to look for cycles in all that it holds would be in vain
    sys.exit(code)


@roomy
def run(arguments: Sequence[str]) -> int:
    """The exit code for a command line; no exception leaves it."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A file name need not be text, and a terminal need not know every character.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(list(arguments), prog_name="tpulint", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else CLEAN
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return ERROR
    except (SettingsError, UsageError) as error:
        _complain(str(error))
        return ERROR
    except BrokenPipeError:
        return _closed_pipe()
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> int:
    """One line for what should not have happened; a rule package that does not load names itself."""
    if os.environ.get("TPULINT_TRACEBACK"):
        import traceback

        traceback.print_exc()
    registry = sys.modules.get("tpulint.registry")
    if registry is not None and isinstance(error, registry.RegistryError):
        reason = str(error)
    else:
        reason = f"internal error: {type(error).__name__}: {error}"
    _complain(f"{' '.join(reason.split())} (TPULINT_TRACEBACK=1 shows where)")
    return ERROR


def _closed_pipe() -> int:
    """The reader has gone: leave without a word, and let the interpreter's last flush go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CLOSED_PIPE


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="tpulint %(version)s")
def cli() -> None:
    """Take PyTorch CUDA code to TPU through torchax."""


def _all(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


_COLOR = click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour the output."
)
_EXIT_ZERO = click.option("--exit-zero", is_flag=True, help="Exit 0 even when there are findings.")
_NO_CACHE = click.option("--no-cache", is_flag=True, help="Neither read nor write the cache.")
_INPUT = _all(
    click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path()),
    click.option(
        "--select", multiple=True, metavar="RULES", help="Use these rules: codes, beginnings, names."
    ),
    click.option("--ignore", multiple=True, metavar="RULES", help="Leave these rules out."),
    click.option("--extend-select", multiple=True, metavar="RULES", help="Use these rules as well."),
    click.option("--exclude", multiple=True, metavar="GLOBS", help="Leave these files and folders out."),
    click.option("--extend-exclude", multiple=True, metavar="GLOBS", help="Leave these out as well."),
    click.option("--force-exclude", is_flag=True, help="Leave excluded files out even where named."),
    click.option(
        "--traced",
        type=click.Choice(CERTAINTIES),
        help="What counts as traced: what is jitted by name; also what modules do in forward; also functions"
        " of packages that take tensors.  [default: interface]",
    ),
    click.option("--keep-gpu", is_flag=True, help="Keep what is fixed running on CUDA, where there is any."),
    click.option("--config", type=click.Path(path_type=Path), help="Read settings from this pyproject.toml."),
    click.option("--isolated", is_flag=True, help="Read no pyproject.toml."),
    click.option("--stdin-filename", metavar="PATH", help="What to call the text of standard input, `-`."),
    click.option("-j", "--jobs", type=click.IntRange(min=1), help="Use this many processes."),
    click.option("-q", "--quiet", is_flag=True, help="Print findings and errors, nothing else."),
)
_FORMAT = click.option(
    "--output-format",
    type=click.Choice(["full", "concise", "json", "github", "sarif"]),
    default="full",
    show_default=True,
    help="The form of the report.",
)


@cli.command()
@_INPUT
@_FORMAT
@click.option("-o", "--output-file", type=click.Path(path_type=Path), help="Write the report to a file.")
@click.option("--statistics", is_flag=True, help="Count the findings by rule instead of listing them.")
@_NO_CACHE
@click.option("--show-files", is_flag=True, help="List the files that would be checked, and stop.")
@_EXIT_ZERO
@_COLOR
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
    """Report what would not work, or would work differently, on TPU.

    PATH is a file, a folder, or - for standard input; the current folder if none is given.
    """
    if statistics and output_format not in (*_TEXT_FORMATS, "json"):
        raise click.UsageError("--statistics is for the formats full, concise and json")
    given = _given(paths, choices, quiet=quiet)
    errors = list(given.errors)
    if show_files:
        _write("".join(f"{file}\n" for file in given.files))
        return _finish(errors, CLEAN)
    findings: list[Finding] = []
    if given:
        from tpulint.engine.run import analyse

        analysis = analyse(given.files, given.settings, jobs=jobs, cache=not no_cache, stdin=given.stdin)
        findings = analysis.findings
        errors += analysis.errors
    from tpulint.report.paint import Paint, paint_for

    paint = Paint(on=color == "always") if output_file else paint_for(sys.stdout, color)
    report = _report(findings, errors, output_format, paint, statistics=statistics, summary=not quiet)
    if output_file is None:
        _write(report)
    else:
        try:
            output_file.write_text(report, encoding="utf-8", errors="backslashreplace", newline="")
        except OSError as error:
            errors.append(FileError(str(output_file), f"cannot be written: {error.strerror or error}"))
    return _finish(errors, FINDINGS if findings and not exit_zero else CLEAN)


@cli.command()
@_INPUT
@click.option("--unsafe-fixes", is_flag=True, help="Apply fixes that may change behaviour, too.")
@click.option("--diff", is_flag=True, help="Show what would change, and write nothing.")
@_FORMAT
@_NO_CACHE
@_EXIT_ZERO
@_COLOR
def fix(
    paths: tuple[str, ...],
    unsafe_fixes: bool,
    diff: bool,
    output_format: str,
    no_cache: bool,
    exit_zero: bool,
    color: str,
    jobs: int | None,
    quiet: bool,
    **choices: Any,
) -> int:
    """Rewrite code for torchax, and report what is left.

    PATH is as for `check`; with - the fixed text goes to standard output.
    With --diff the exit code is 1 if anything would change.
    """
    given = _given(paths, choices, quiet=quiet)
    errors = list(given.errors)
    if not given:
        return _finish(errors, CLEAN)
    from tpulint.engine.fix import fix as fixed
    from tpulint.report.paint import paint_for

    result = fixed(
        given.files,
        given.settings,
        jobs=jobs,
        cache=not no_cache,
        unsafe=unsafe_fixes,
        stdin=given.stdin,
    )
    errors += result.errors
    if diff:
        from tpulint.report.diff import render

        paint = paint_for(sys.stdout, color)
        # What the files import is long, and is read after them.
        for change in sorted(result.changes, key=lambda change: change.original is None):
            _write(render(change.path, change.before, change.after, paint))
        if result.remaining and not quiet:
            from tpulint.report.statistics import left

            _complain(left(result.remaining), kind="note")
        return _finish(errors, FINDINGS if result.changes and not exit_zero else CLEAN)
    stream = sys.stdout
    if given.stdin:
        stream = sys.stderr
        sys.stdout.flush()
        sys.stdout.buffer.write(result.changes[0].data if result.changes else given.stdin[1])
        sys.stdout.buffer.flush()
    else:
        for change in result.changes:
            try:
                change.write()
            except OSError as error:
                errors.append(FileError(change.path, f"cannot be written: {error.strerror or error}"))
    paint = paint_for(stream, color)
    summary = not quiet and output_format in _TEXT_FORMATS
    if summary and result.applied:
        from tpulint.registry import rules
        from tpulint.report.statistics import applied

        names = {rule.code: rule.name for rule in rules()}
        made = [change.path for change in result.changes if change.original is None]
        _write(applied(result.applied, names, len(result.changes) - len(made), made, paint), stream)
    _write(_report(result.remaining, errors, output_format, paint, summary=summary), stream)
    return _finish(errors, FINDINGS if result.remaining and not exit_zero else CLEAN)


@cli.command()
@click.argument("which", nargs=-1, metavar="[CODE|RULE|CASE]...")
@click.option("--tpu", "tpus", multiple=True, metavar="NAME", help="Compile for this TPU: v5e, v6e:2x4, ...")
@click.option(
    "--platform",
    type=click.Choice(["auto", "cpu", "gpu", "tpu"]),
    default="auto",
    show_default=True,
    help="Where to run; the CPU where that is not there.",
)
@click.option("--timeout", type=click.FloatRange(min=1), default=120.0, help="Seconds for each step.")
@click.option("--fixtures", type=click.Path(path_type=Path), help="The folder that holds the cases.")
@click.option("--locked", is_flag=True, help="Execute only cases that changed, and a sample.")
@click.option("--update-lock", is_flag=True, help="Write the outcomes of executed cases to evidence.lock.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Execute this many cases at a time.")
@click.option("-q", "--quiet", is_flag=True, help="Print only cases that are not verified.")
@click.option("--output-format", type=click.Choice(["table", "json"]), default="table", help="The form.")
@_COLOR
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
    """Execute the rules' fixtures: in plain PyTorch, on torchax, jitted, and compiled for TPU.

    All of them, or those of a rule, or one: TPU301, item-in-traced-code, item_in_traced_code/example.
    With --locked, only those that changed since evidence.lock was written, and 3 % of the others.
    Exit code 1: a case failed, or evidence.lock is out of date; 2: no case was executed.
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
            "evidence.lock is for the CPU and for fixed TPU targets: leave out --platform and --tpu"
        )
    from tpulint.report.paint import paint_for

    options = Options(timeout=timeout, platform=platform, jobs=jobs)
    if tpus:
        options = replace(options, tpus=tuple(_TOPOLOGIES.get(name, name) for name in tpus))
    run = Run(which, fixtures, options, partial(_complain, kind="note"))
    if locked or update_lock:
        run.beside_lock(executes_all=not locked, writes_lock=update_lock)
    return run.report(_write_now, paint_for(sys.stdout, color), quiet=quiet, as_json=output_format == "json")


@cli.command()
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", help="The form.")
@_COLOR
def rules(output_format: str, color: str) -> None:
    """List the rules."""
    from tpulint.registry import rules as registered
    from tpulint.report import page
    from tpulint.report.paint import paint_for

    if output_format == "json":
        _write(page.listing_json(registered()))
    else:
        _write(page.listing(registered(), paint_for(sys.stdout, color)))


@cli.command()
@click.argument("subjects", nargs=-1, metavar="CODE | [PATH]...")
@click.option("--at", metavar="FILE:LINE", help="Tell what is believed of a line instead, judged among PATH.")
@_COLOR
def explain(subjects: tuple[str, ...], at: str | None, color: str) -> int:
    """Show a rule's page, or what the model believes of a line and why rules speak or are silent there.

    CODE is a rule's code or its name; PATH is by default the project around FILE.
    """
    from tpulint.report.paint import paint_for

    paint = paint_for(sys.stdout, color)
    if at is None:
        if len(subjects) != 1:
            raise click.UsageError("name one rule, or a line with --at FILE:LINE")
        from tpulint.report import page

        page.show(_rule(subjects[0]), sys.stdout, paint)
        return CLEAN
    path, row, given = place_asked_for(at, subjects)
    from tpulint.engine.inquiry import InquiryError, inquire
    from tpulint.report.inquiry import render

    try:
        _write(render(inquire(path, row, given.files, given.settings), paint))
    except InquiryError as error:
        return _finish([FileError(str(path), str(error))], CLEAN)
    return _finish(given.errors, CLEAN)


@cli.command()
def version() -> None:
    """Print the version."""
    _write(f"tpulint {__version__}\n")


def _given(paths: tuple[str, ...], choices: Mapping[str, Any], *, quiet: bool) -> Given:
    given = asked_for(paths, **choices)
    if not given and not given.errors and not quiet:
        _complain("no Python files to check; what Git ignores is left out", kind="note")
    return given


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


def _report(
    findings: Sequence[Finding],
    errors: Sequence[FileError],
    output_format: str,
    paint: Paint,
    *,
    statistics: bool = False,
    summary: bool = True,
) -> str:
    """The text of a report in the form that was asked for."""
    from importlib import import_module

    from tpulint.report import statistics as counts

    if statistics and output_format == "json":
        return counts.render_json(findings)
    if output_format == "sarif":
        from tpulint.registry import rules as registered
        from tpulint.report import sarif

        return sarif.render(findings, errors, registered())
    form = import_module(f"tpulint.report.{output_format}")
    if output_format not in _TEXT_FORMATS:
        return str(form.render(findings))
    closing = counts.summary(findings, paint) if summary and not (errors and not findings) else ""
    if statistics:
        legend = counts.LEGEND if summary and findings else ""
        return f"{counts.render(findings, paint)}{legend}{closing}"
    return str(form.render(findings, paint)) + closing


def _finish(errors: Sequence[FileError], code: int) -> int:
    """Say what went wrong with which file; any such error outweighs findings."""
    from tpulint.report.paths import shown

    for error in errors:
        _complain(f"{shown(error.path)}: {' '.join(error.message.split())}")
    return ERROR if errors else code


def _write(text: str, stream: TextIO | None = None) -> None:
    try:
        print(text, end="", file=stream)
    except BrokenPipeError:
        # click would turn it into exit code 1, which means findings.
        sys.exit(_closed_pipe())


def _write_now(text: str) -> None:
    """Write what a reader waits for, in a pipe, too."""
    _write(text)
    sys.stdout.flush()


def _complain(text: str, kind: str = "error") -> None:
    print(f"{kind}: {text}", file=sys.stderr)
