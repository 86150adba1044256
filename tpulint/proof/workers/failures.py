"""Exceptions in the user's code, with the frames that are in the user's code."""

from __future__ import annotations

import linecache
import traceback
from pathlib import Path
from typing import Any

_LONGEST = 600


def described(error: BaseException, root: str) -> dict[str, Any]:
    """Type, message and frames of an exception as JSON values; only frames in the folder `root`."""
    frames = frames_of(error, root)
    if isinstance(error, SyntaxError) and error.filename and error.filename.startswith(root):
        path = Path(error.filename).relative_to(root)
        frames.append(
            {
                "path": str(path),
                "line": error.lineno or 0,
                "function": "",
                "code": (error.text or "").strip(),
            }
        )
    message = str(error).strip()
    if len(message) > _LONGEST:
        message = f"{message[: _LONGEST - 3]}..."
    return {"type": type(error).__name__, "message": message, "frames": frames}


def frames_of(error: BaseException, root: str) -> list[dict[str, Any]]:
    """The frames of an exception in files of a folder; those of its cause, if it has none itself."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        frames = [
            {
                "path": str(Path(frame.filename).relative_to(root)),
                "line": frame.lineno or 0,
                "function": frame.name,
                "code": (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip(),
            }
            for frame in traceback.extract_tb(current.__traceback__)
            if is_below(frame.filename, root)
        ]
        if frames:
            return frames
        current = current.__cause__ or current.__context__
    return []


def is_below(path: str, root: str) -> bool:
    """Whether a file is in a folder, and not in an environment within it."""
    return path.startswith(f"{root}/") and "site-packages" not in path
