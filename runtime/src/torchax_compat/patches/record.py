"""Records the signatures of all targets of patches, which `enable()` compares with the installed ones.

Run it with each version of torch, torchax and JAX that is tested: `python -m torchax_compat.patches.record`.
It adds the signatures of the installed versions to those on record in `signatures.json`.
"""

from __future__ import annotations

import json
from pathlib import Path

from .. import environment
from . import application
from .declarations import PATCHES

FILE = Path(__file__).with_name("signatures.json")


def merged(recorded: dict[str, list[str]]) -> dict[str, list[str]]:
    """The signatures on record, and those of the installed versions, for the targets that exist now.

    Args:
        recorded: the signatures on record, by target.

    Raises:
        RuntimeError: the runtime is enabled, so that the targets are not the original ones.
    """
    if environment.is_enabled():
        raise RuntimeError("signatures are recorded without the runtime: call `disable()` first")
    environment.import_all()
    targets = sorted(target for target, patch in PATCHES.items() if not patch.is_new)
    return {target: sorted({*recorded.get(target, []), *_installed(target)}) for target in targets}


def _installed(target: str) -> list[str]:
    try:
        return [application.signature_of(*application.owner_of(target))]
    except (AttributeError, ImportError):  # the installed versions do not have it
        return []


def read() -> dict[str, list[str]]:
    """The signatures on record."""
    found: dict[str, list[str]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    FILE.write_text(json.dumps(merged(read()), indent=2) + "\n", encoding="utf-8")
