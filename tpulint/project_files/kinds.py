"""Which files are taken apart, by their names."""

from __future__ import annotations

import fnmatch
import os
from enum import StrEnum


class FileKind(StrEnum):
    """What a file is, and so how it is read."""

    REQUIREMENTS = "requirements"
    PYPROJECT = "pyproject"
    SETUP_CFG = "setup.cfg"
    SETUP_PY = "setup.py"
    NOTEBOOK = "notebook"
    CONDA = "conda environment"
    DOCKERFILE = "Dockerfile"
    SHELL = "shell script"
    VARIABLES = "variables"
    YAML = "YAML"
    TOML = "TOML"


#: The first pattern that fits decides.
_PATTERNS = (
    ("pyproject.toml", FileKind.PYPROJECT),
    ("setup.cfg", FileKind.SETUP_CFG),
    ("*.ipynb", FileKind.NOTEBOOK),
    ("*requirements*.txt", FileKind.REQUIREMENTS),
    ("constraints*.txt", FileKind.REQUIREMENTS),
    ("environment*.y*ml", FileKind.CONDA),
    ("conda*.y*ml", FileKind.CONDA),
    ("dockerfile", FileKind.DOCKERFILE),
    ("dockerfile.*", FileKind.DOCKERFILE),
    ("containerfile", FileKind.DOCKERFILE),
    ("*.dockerfile", FileKind.DOCKERFILE),
    ("*.sh", FileKind.SHELL),
    ("*.bash", FileKind.SHELL),
    ("*.slurm", FileKind.SHELL),
    ("*.sbatch", FileKind.SHELL),
    (".env", FileKind.VARIABLES),
    (".env.*", FileKind.VARIABLES),
    ("*.env", FileKind.VARIABLES),
    ("*.yaml", FileKind.YAML),
    ("*.yml", FileKind.YAML),
    ("*.toml", FileKind.TOML),
)
#: Most files have none of these endings, so that few names are compared with the patterns.
_ENDINGS = (".toml", ".cfg", ".txt", ".yml", ".yaml", ".sh", ".bash", ".slurm", ".sbatch", ".env", ".ipynb")


def kind_of(path: str) -> FileKind | None:
    """The kind of a file; None if it is none of those that are taken apart."""
    name = os.path.basename(path).lower()
    if name == "setup.py":
        return FileKind.SETUP_PY
    if not name.endswith(_ENDINGS) and "file" not in name and not name.startswith(".env"):
        return None
    if name.endswith(".txt") and os.path.basename(os.path.dirname(path)) == "requirements":
        return FileKind.REQUIREMENTS
    return next((kind for pattern, kind in _PATTERNS if fnmatch.fnmatchcase(name, pattern)), None)
