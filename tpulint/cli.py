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
    from tpulint.rule import Rule
    from tpulint.runtime.vendoring import Copy

CLEAN, FINDINGS, ERROR, INTERRUPTED, CLOSED_PIPE = 0, 1, 2, 130, 141
_NEEDS = "verify needs {}, which is not installed: pip install 'tpulint[verify]'"
_TOPOLOGIES = {
    "v4": "v4:2x2x1",
    "v5e": "v5e:2x2",
    "v5p": "v5p:2x2x1",
    "v6e": "v6e:2x2",
    "tpu7x": "tpu7x:2x2x1",
}


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


_COLOR = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="When to color the output.",
    show_default=True,
)
_EXIT_ZERO = click.option(
    "--exit-zero", is_flag=True, help="Exit with code 0 instead of 1 if there are findings."
)
_NO_CACHE = click.option("--no-cache", is_flag=True, help="Do not read or write the cache of results.")
_INPUT = _all(
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
_FORMAT = click.option(
    "--output-format",
    type=click.Choice(["full", "concise", "json", "github", "sarif"]),
    default="full",
    show_default=True,
    help="The format of the report.",
)


@cli.command()
@_INPUT
@_FORMAT
@click.option(
    "-o",
    "--output-file",
    type=click.Path(path_type=Path),
    help="Write the report to this file.  [default: standard output]",
)
@click.option("--statistics", is_flag=True, help="Count the findings by rule instead of listing them.")
@_NO_CACHE
@click.option("--show-files", is_flag=True, help="List the files that would be checked, and check nothing.")
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
    """Report code that fails, or gives different results, on TPU.

    PATH is a file, a folder, or - for standard input. Without PATH, tpulint checks the current folder.
    """
    if statistics and output_format not in ("full", "concise", "json"):
        raise click.UsageError("--statistics works only with the formats full, concise and json")
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
    from tpulint.report.formats import render
    from tpulint.report.paint import Paint, paint_for

    paint = Paint(on=color == "always") if output_file else paint_for(sys.stdout, color)
    report = render(findings, errors, output_format, paint, statistics=statistics, summary=not quiet)
    if output_file is None:
        _write(report)
    else:
        try:
            output_file.write_text(report, encoding="utf-8", errors="backslashreplace", newline="")
        except OSError as error:
            errors.append(FileError(str(output_file), f"cannot be written: {error.strerror or error}"))
    return _finish(errors, FINDINGS if findings and not exit_zero else CLEAN)


@cli.command(short_help="Rewrite code so that it runs on TPU.")
@_INPUT
@click.option(
    "--unsafe-fixes", is_flag=True, help="Also apply fixes after which the program may behave differently."
)
@click.option("--diff", is_flag=True, help="Print the changes as a diff, and change no file.")
@click.option(
    "--include-tests",
    is_flag=True,
    help="Also fix files with tests. Without this option, tpulint fixes such a file only if PATH names it.",
)
@click.option(
    "--vendor",
    is_flag=True,
    help="Copy the runtime torchax-compat into the project, instead of adding it to the dependencies.",
)
@_FORMAT
@_NO_CACHE
@_EXIT_ZERO
@_COLOR
def fix(
    paths: tuple[str, ...],
    unsafe_fixes: bool,
    diff: bool,
    vendor: bool,
    output_format: str,
    no_cache: bool,
    exit_zero: bool,
    color: str,
    jobs: int | None,
    quiet: bool,
    **choices: Any,
) -> int:
    """Rewrite code so that it runs on TPU, and report the remaining findings.

    PATH is a file, a folder, or - for standard input. Without PATH, tpulint fixes the current folder.
    If PATH is -, the fixed code is written to standard output.
    Without --unsafe-fixes, only safe fixes are applied.
    With --diff, the exit code is 1 if any file would change, and 0 if no file would change.

    Fixed programs import the runtime torchax-compat. If the project declares its dependencies in
    pyproject.toml, setup.cfg, requirements.txt or environment.yml, it is added there.
    """
    given = _given(paths, choices, quiet=quiet)
    errors = list(given.errors)
    if not given:
        return _finish(errors, CLEAN)
    from tpulint.engine.fix import fix as fixed
    from tpulint.engine.supply import declaring, import_root, newly_importing
    from tpulint.report.formats import is_text, render
    from tpulint.report.paint import paint_for

    result = fixed(
        given.files,
        given.settings,
        jobs=jobs,
        cache=not no_cache,
        unsafe=unsafe_fixes,
        stdin=given.stdin,
        named=given.named,
    )
    errors += result.errors
    importing = [] if given.stdin else newly_importing(result.changes)
    declared = None if vendor else declaring(importing, given.settings.root)
    changes = [*result.changes, *([declared] if declared is not None else [])]
    if diff:
        from tpulint.report import diff as diffs

        paint = paint_for(sys.stdout, color)
        for change in changes:
            _write(diffs.render(change.path, change.before, change.after, paint))
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
        if vendor and importing:
            errors += _vendored(import_root(importing, given.settings.root))
        for change in changes:
            try:
                change.write()
            except OSError as error:
                errors.append(FileError(change.path, f"cannot be written: {error.strerror or error}"))
    paint = paint_for(stream, color)
    summary = not quiet and is_text(output_format)
    if summary:
        from tpulint.registry import rules
        from tpulint.report.statistics import applied, next_steps

        names = {rule.code: rule.name for rule in rules()}
        extended = declared.path if declared is not None else ""
        _write(applied(result.applied, names, extended, result.tests, paint), stream)
    _write(render(result.remaining, errors, output_format, paint, summary=summary), stream)
    if summary:
        _write(
            next_steps(
                result.remaining,
                changed=bool(result.changes),
                unsafe_applied=unsafe_fixes,
                installs=bool(importing) and not vendor,
            ),
            stream,
        )
    return _finish(errors, FINDINGS if result.remaining and not exit_zero else CLEAN)


def _vendored(folder: Path) -> list[FileError]:
    """Copy the runtime into a folder that has no copy yet; why that failed."""
    from tpulint.runtime import vendoring

    try:
        if vendoring.copy_in(folder) is None:
            _complain(_made(vendoring.write(folder)), kind="note")
    except (vendoring.VendorError, OSError) as error:
        return [FileError(str(folder), str(error))]
    return []


def _made(copy: Copy) -> str:
    return f"copied torchax-compat {copy.version} into {copy.folder}"


@cli.command(short_help="Copy the runtime torchax-compat into a project.")
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--check", is_flag=True, help="Change nothing; the exit code is 1 if the copy is not current.")
@click.option("--upgrade", is_flag=True, help="Replace an unchanged copy with the installed version.")
def vendor(folder: Path, check: bool, upgrade: bool) -> int:
    """Copy the runtime torchax-compat into a project that wants no dependency on it.

    The copy is the folder torchax_compat in DIR, by default the current folder. Programs find it if DIR is
    on their import path, as the folder of a script is. Commit the copy with the project.
    """
    from tpulint.runtime import vendoring

    try:
        if not check:
            _write(f"{_made(vendoring.write(folder, upgrade=upgrade))}\n")
            return CLEAN
        copy = vendoring.copy_in(folder)
        if copy is None:
            raise vendoring.VendorError(f"{folder} has no copy of torchax-compat")
        if vendoring.is_current(copy):
            _write(f"{copy.folder}: torchax-compat {copy.version}, current\n")
            return CLEAN
        installed, _ = vendoring.source()
        changed = f", {len(copy.changed)} files changed" if copy.changed else ""
        version = copy.version or "of an unknown version"
        _write(f"{copy.folder}: torchax-compat {version}{changed}; {installed} is installed\n")
    except (vendoring.VendorError, OSError) as error:
        _complain(str(error))
        return ERROR
    return FINDINGS


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
    run = Run(which, fixtures, options, partial(_complain, kind="note"))
    if locked or update_lock:
        run.beside_lock(executes_all=not locked, writes_lock=update_lock)
    return run.report(_write_now, paint_for(sys.stdout, color), quiet=quiet, as_json=output_format == "json")


@cli.command()
@click.option(
    "--output-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The output format.",
)
@_COLOR
def rules(output_format: str, color: str) -> None:
    """List all rules."""
    from tpulint.registry import rules as registered
    from tpulint.report import page
    from tpulint.report.paint import paint_for

    if output_format == "json":
        _write(page.listing_json(registered()))
    else:
        _write(page.listing(registered(), paint_for(sys.stdout, color)))


@cli.command()
@click.argument("subjects", nargs=-1, metavar="CODE | [PATH]...")
@click.option(
    "--at",
    metavar="FILE:LINE",
    help="Explain this line: its inferred types, and why each rule reports the line or not.",
)
@_COLOR
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
        _complain("no Python files to check (files that Git ignores are skipped)", kind="note")
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
