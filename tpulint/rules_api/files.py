"""What rules about files around the code use: the context, and the parts of files."""

from tpulint.project_files.parts import (
    Address,
    Cell,
    Command,
    Directive,
    Image,
    Part,
    Requirement,
    Setting,
    Variable,
    Word,
)
from tpulint.rules_api.file_context import FileContext

__all__ = [
    "Address",
    "Cell",
    "Command",
    "Directive",
    "FileContext",
    "Image",
    "Part",
    "Requirement",
    "Setting",
    "Variable",
    "Word",
]
