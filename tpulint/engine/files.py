"""The bytes of files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tpulint.finding import FileError


def contents_of(files: Sequence[Path]) -> tuple[dict[str, bytes], list[FileError]]:
    """The files' bytes by path, and those that cannot be read."""
    contents: dict[str, bytes] = {}
    errors: list[FileError] = []
    for file in files:
        path = str(file)
        try:
            with open(path, "rb") as stream:
                contents[path] = stream.read()
        except OSError as error:
            errors.append(FileError(path, f"cannot be read: {error.strerror or error}"))
    return contents, errors
