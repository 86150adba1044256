"""Paths as a reader knows them."""

from __future__ import annotations

import os


def shown(path: str) -> str:
    """Relative to the current folder where the file lies below it."""
    folder = os.getcwd().rstrip("/\\")
    if path.startswith((folder + "/", folder + "\\")):
        path = path[len(folder) + 1 :]
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in path)
