"""Makes a fixed file read as if its author had written it.

Each step takes the text of a file before all fixes and after them, and gives a text that does the same:
`pass` goes with the block that it fills, variables and imports that lost their last use go, imports are in
the order that the file had, continuation lines are aligned, and lines are no longer than the project's.
What the author wrote so before stays.
"""

from __future__ import annotations

from tpulint.tidy.alignment import aligned
from tpulint.tidy.blank_lines import without_gaps
from tpulint.tidy.blocks import without_empty_blocks
from tpulint.tidy.choices import without_equal_choices
from tpulint.tidy.comments import without_orphans as without_orphaned_comments
from tpulint.tidy.functions import defined
from tpulint.tidy.imports import joined, marked, sorted_like
from tpulint.tidy.imports import without_orphans as without_orphaned_imports
from tpulint.tidy.long_lines import wrapped
from tpulint.tidy.variables import without_unused

__all__ = ["tidied"]


def tidied(before: str, after: str, *, is_package: bool, width: int) -> str:
    """The text of a fixed file, tidied.

    Args:
        before: the text before all fixes.
        after: the text with them, which parses.
        is_package: whether the file is an `__init__.py`, whose imports are for others to use.
        width: how long lines may be, in characters.
    """
    text = without_orphaned_comments(before, after)
    text = without_equal_choices(before, text)
    text = defined(before, text)
    text = without_empty_blocks(before, text)
    text = without_unused(before, text)
    if not is_package:
        text = without_orphaned_imports(before, text)
    text = joined(before, text)
    if not is_package:
        text = marked(before, text)
    text = sorted_like(before, text, width)
    text = without_gaps(before, text)
    text = aligned(before, text, width)
    return wrapped(before, text, width)
