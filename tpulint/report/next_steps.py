"""What to do after `tpulint fix`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from tpulint.finding import Applicability, Finding
from tpulint.knowledge.installation import commands
from tpulint.report.paths import shown
from tpulint.report.statistics import by_safety
from tpulint.settings import UNANALYZED

_LISTED = 3


def render(
    findings: Sequence[Finding],
    *,
    changed: bool,
    unsafe_applied: bool,
    programs: Sequence[tuple[Path, bool]] = (),
    vendored: bool = False,
) -> str:
    """The next steps, one line each; "" if `fix` changed nothing and nothing is left.

    Args:
        findings: those that are left.
        changed: whether any file was fixed.
        unsafe_applied: whether unsafe fixes were applied.
        programs: the programs that enter the torchax environment now, each with whether it uses all devices
            of a host.
        vendored: whether the project has a copy of the runtime.
    """
    steps: list[str] = []
    _, unsafe = by_safety(findings)
    if unsafe and not unsafe_applied:
        steps.append("read the unsafe fixes with `tpulint fix --unsafe-fixes --diff`, and apply them")
    unfixed = (one for one in findings if one.fix is None or one.fix.applicability is Applicability.DISPLAY)
    by_hand = sorted({one.code for one in unfixed} - UNANALYZED)
    if by_hand:
        steps.append(f"change the other findings by hand (`tpulint explain {by_hand[0]}` says how)")
    if programs:
        lines = "".join(f"\n      {line}" for line in commands("tpu", runtime=not vendored))
        steps.append(f"install, on the host with the TPU, and check with `tpulint doctor`:{lines}")
    for path, all_chips in programs[:_LISTED]:
        command = shlex.join(["python", shown(str(path))])
        steps.append(f"run `{command}`, which uses {'all chips of the host' if all_chips else 'one chip'}")
    if len(programs) > _LISTED:
        steps.append(f"run the {len(programs) - _LISTED} other programs")
    if changed:
        run = "" if programs else "run the program, and "
        steps.append(f"{run}compare its results with those of the original program")
    if len(steps) < 2:
        return "".join(f"Next: {step}\n" for step in steps)
    return "Next:\n" + "".join(f"  - {step}\n" for step in steps)
