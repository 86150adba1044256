"""Arguments in, exit code out.

0: clean; 1: findings; 2: bad usage, a file that could not be read, or an internal error.
Whatever a command needs is imported when it runs, so that `--help` and a cached check start at once.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from tpulint.cli import check, doctor, fix, report, sharding, verify, verify_rules  # noqa: F401 # which add their commands to the group
from tpulint.cli.options import cli
from tpulint.cli.output import CLEAN, CLOSED_PIPE, ERROR, FINDINGS, INTERRUPTED, closed_pipe, complain
from tpulint.frames import roomy
from tpulint.invocation import UsageError
from tpulint.settings import SettingsError

__all__ = ["CLEAN", "CLOSED_PIPE", "ERROR", "FINDINGS", "INTERRUPTED", "cli", "main", "run"]


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
        complain(str(error))
        return ERROR
    except BrokenPipeError:
        return closed_pipe()
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
    complain(f"{' '.join(reason.split())} (TPULINT_TRACEBACK=1 shows where)")
    return ERROR
