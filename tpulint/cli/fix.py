"""`tpulint fix` and `tpulint vendor`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tpulint.cli.options import COLOR, EXIT_ZERO, FORMAT, INPUT, NO_CACHE, cli, given_input, note_on_target
from tpulint.cli.output import CLEAN, ERROR, FINDINGS, complain, finish, write
from tpulint.finding import Edits, FileError

if TYPE_CHECKING:
    from tpulint.engine.change import Change
    from tpulint.engine.fix import FixResult
    from tpulint.engine.fix_keys import FixKey
    from tpulint.invocation import Given
    from tpulint.runtime.vendoring import Copy


@cli.command(short_help="Rewrite code so that it runs on TPU.")
@INPUT
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
@click.option(
    "--verify-with",
    metavar="COMMAND",
    help="Run this command in a shell after the fixes. If it fails, find the fixes that are to blame, and"
    " leave these out.",
)
@click.option(
    "--verify-timeout",
    type=click.FloatRange(min=1),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="The time limit of each run of the command of --verify-with.",
)
@FORMAT
@NO_CACHE
@EXIT_ZERO
@COLOR
def fix(
    paths: tuple[str, ...],
    unsafe_fixes: bool,
    diff: bool,
    vendor: bool,
    verify_with: str | None,
    verify_timeout: float,
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

    With --verify-with, each fix is kept only if the command passes with it. The command runs several times,
    on your files as they are fixed so far. If tpulint is interrupted, your files are as they were.

    Fixed programs import the runtime torchax-compat. If the project declares its dependencies in
    pyproject.toml, setup.cfg, setup.py, requirements.txt or environment.yml, it is added
    there.
    """
    given = given_input(paths, choices, quiet=quiet)
    note_on_target(given.settings, quiet=quiet)
    errors = list(given.errors)
    if not given:
        return finish(errors, CLEAN)
    _recovered(given)
    from tpulint.engine.supply import newly_entering, vendoring_folder
    from tpulint.report.formats import has_edits, is_text, render
    from tpulint.report.paint import paint_for

    left_out: frozenset[FixKey] = frozenset()
    fixed = partial(_fixed, given, jobs=jobs, cache=not no_cache, unsafe=unsafe_fixes, declares=not vendor)
    if verify_with is not None:
        if diff or given.stdin:
            raise click.UsageError("--verify-with changes files: do not combine it with --diff or `-`")
        if not verify_with.strip():
            raise click.UsageError("--verify-with needs a command")
        if vendor:
            raise click.UsageError(
                "--verify-with needs the copy before the fixes: run `tpulint vendor` first"
            )
        left_out = _tried(given, verify_with, verify_timeout, fixed)
    result, declared, importing, unread = fixed(left_out)
    errors += [*result.errors, *unread]
    folder = vendoring_folder(importing) if vendor and importing else None
    if folder is not None and not diff:
        _vendored(folder)
    if diff:
        from tpulint.report import diff as diffs

        paint = paint_for(sys.stdout, color)
        for change in [*result.changes, *declared]:
            write(diffs.render(change.path, change.before, change.after, paint))
        if folder is not None and not quiet:
            complain(f"torchax-compat would be copied into {folder}", kind="note")
        if result.remaining and not quiet:
            from tpulint.report.statistics import left

            complain(left(result.remaining), kind="note")
        return finish(errors, FINDINGS if result.changes and not exit_zero else CLEAN)
    stream = sys.stdout
    if given.stdin:
        stream = sys.stderr
        sys.stdout.flush()
        sys.stdout.buffer.write(result.changes[0].data if result.changes else given.stdin[1])
        sys.stdout.buffer.flush()
    else:
        errors += (failed := _written(result.changes))
        if not {error.path for error in failed} >= {str(path) for path in importing}:
            errors += (undeclared := _written(declared))
            declared = [one for one in declared if one.path not in {error.path for error in undeclared}]
        else:
            declared = []
    paint = paint_for(stream, color)
    summary = not quiet and is_text(output_format)
    if summary:
        from tpulint.registry import rules
        from tpulint.report import next_steps
        from tpulint.report.statistics import applied

        names = {rule.code: rule.name for rule in rules()}
        extended = [change.path for change in declared]
        write(applied(result.applied, names, extended, result.tests, paint), stream)
    edits: Edits = {}
    if has_edits(output_format):
        from tpulint.engine.edits import edits_of

        edits = edits_of(result.remaining, {change.path: change.data for change in result.changes})
    write(render(result.remaining, errors, output_format, paint, edits=edits, summary=summary), stream)
    if summary:
        write(
            next_steps.render(
                result.remaining,
                changed=bool(result.changes),
                unsafe_applied=unsafe_fixes,
                programs=[] if given.stdin else newly_entering(result.changes),
                vendored=vendor,
            ),
            stream,
        )
    return finish(errors, FINDINGS if result.remaining and not exit_zero else CLEAN)


class _Fixed(NamedTuple):
    """What fixing comes to; nothing is written yet.

    `result` has the changes of the code and of the files around it, `declared` those that declare the
    runtime, and `importing` the files that import it now.
    """

    result: FixResult
    declared: list[Change]
    importing: list[Path]
    errors: list[FileError]


def _fixed(
    given: Given,
    left_out: Collection[FixKey],
    *,
    jobs: int | None,
    cache: bool,
    unsafe: bool,
    declares: bool,
) -> _Fixed:
    """Fix the code, declare the runtime, and fix the files around the code as they are then."""
    from tpulint.engine import project_files
    from tpulint.engine.files import contents_of
    from tpulint.engine.fix import fix as fix_code
    from tpulint.engine.supply import declarations_for, newly_importing

    result = fix_code(
        given.files,
        given.settings,
        jobs=jobs,
        cache=cache,
        unsafe=unsafe,
        stdin=given.stdin,
        named=given.named,
        left_out=left_out,
    )
    importing = [] if given.stdin else newly_importing(result.changes)
    declared = declarations_for(importing, given.settings.root) if declares else []
    if not given.project_files:
        return _Fixed(result, declared, importing, [])
    contents, errors = contents_of(given.project_files)
    found = project_files.fix_after(
        [*result.changes, *declared], contents, given.settings, unsafe=unsafe, left_out=left_out
    )
    declaring = {one.path for one in declared}
    changes = [one for one in found.changes if one.path not in declaring]
    declared = [one for one in found.changes if one.path in declaring]
    remaining = sorted([*result.remaining, *found.findings], key=lambda finding: finding.sort_key)
    applied = {
        path: dict(Counter(result.applied.get(path, {})) + Counter(found.applied.get(path, {})))
        for path in result.applied.keys() | found.applied.keys()
    }
    keys = (*result.keys, *sorted(found.keys))
    both = replace(result, changes=changes, applied=applied, remaining=remaining, keys=keys)
    return _Fixed(both, declared, importing, [*errors, *found.errors])


def _recovered(given: Given) -> None:
    """Restore the files of a `fix --verify-with` that was killed, with a note on standard error."""
    from tpulint.report.paths import shown
    from tpulint.trial.journal import JournalError, recover

    try:
        found = recover(given.settings)
    except JournalError as error:
        raise click.ClickException(str(error)) from error
    if found.restored:
        restored = ", ".join(map(shown, found.restored))
        complain(f"restored the files of an interrupted `fix --verify-with`: {restored}", kind="note")
    for path, copy in found.changed:
        complain(
            f"{shown(path)} was not restored, because it has changed since an interrupted"
            f" `fix --verify-with`; {shown(copy)} is a copy of the original",
            kind="note",
        )


def _tried(
    given: Given, command: str, timeout: float, fixed: Callable[[Collection[FixKey]], _Fixed]
) -> frozenset[FixKey]:
    """The fixes without which a command passes, and a note about them on standard error."""
    from tpulint.trial import FixedFiles, JournalError, Trial, TrialError, description

    def fixed_files(left_out: Collection[FixKey]) -> FixedFiles:
        found = fixed(left_out)
        changes = [*found.result.changes, *found.declared]
        return FixedFiles(
            {one.path: one.data for one in changes},
            {one.path: one.original for one in changes},
            found.result.keys,
        )

    trial = Trial(given.settings, command, timeout, fixed_files, partial(complain, kind="note"))
    try:
        left_out = trial.failing_fixes()
    except (JournalError, TrialError) as error:
        raise click.ClickException(str(error)) from error
    for line in description(left_out):
        complain(line, kind="note")
    return left_out


def _written(changes: Sequence[Change]) -> list[FileError]:
    """Write changes to their files; which of them cannot be written."""
    errors = []
    for change in changes:
        try:
            change.write()
        except OSError as error:
            errors.append(FileError(change.path, f"cannot be written: {error.strerror or error}"))
    return errors


def _vendored(folder: Path) -> None:
    """Copy the runtime into a folder that has no copy yet.

    Raises:
        click.UsageError: it cannot be copied; no file was changed.
    """
    from tpulint.runtime import vendoring

    try:
        copy = vendoring.copy_in(folder)
        if copy is None:
            complain(_made(vendoring.write(folder)), kind="note")
        elif not vendoring.is_current(copy):
            complain(f"{copy.folder} is not current: `tpulint vendor --upgrade {folder}`", kind="note")
    except (vendoring.VendorError, OSError) as error:
        raise click.UsageError(f"--vendor: {error}") from error


def _made(copy: Copy) -> str:
    return f"copied torchax-compat {copy.version} into {copy.folder}"


@cli.command(short_help="Copy the runtime torchax-compat into a project.")
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option(
    "--check",
    is_flag=True,
    help="Change nothing; the exit code is 1 if there is no copy, or it is not current.",
)
@click.option("--upgrade", is_flag=True, help="Replace an unchanged copy with the installed version.")
def vendor(folder: Path, check: bool, upgrade: bool) -> int:
    """Copy the runtime torchax-compat into a project that wants no dependency on it.

    The copy is the folder torchax_compat in DIR, by default the current folder. Programs find it if DIR is
    on their import path, as the folder of a script is. Commit the copy with the project.
    """
    if check and upgrade:
        raise click.UsageError("--check changes nothing: do not combine it with --upgrade")
    from tpulint.runtime import vendoring

    try:
        if not check:
            write(f"{_made(vendoring.write(folder, upgrade=upgrade))}\n")
            return CLEAN
        copy = vendoring.copy_in(folder)
        if copy is None:
            write(f"{folder} has no copy of torchax-compat\n")
            return FINDINGS
        if vendoring.is_current(copy):
            write(f"{copy.folder}: torchax-compat {copy.version}, current\n")
            return CLEAN
        installed, _ = vendoring.source()
        changed = f", changed in {', '.join(copy.changed)}" if copy.changed else ""
        write(f"{copy.folder}: torchax-compat {copy.version}{changed}; {installed} is installed\n")
    except (vendoring.VendorError, OSError) as error:
        complain(str(error))
        return ERROR
    return FINDINGS
