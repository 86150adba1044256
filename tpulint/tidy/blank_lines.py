"""The blank lines that fixes leave behind where they take something out from between others."""

from __future__ import annotations

#: What PEP 8 has between definitions, and so what is written around new ones.
_MOST = 2


def without_gaps(before: str, after: str) -> str:
    """`after` with no more blank lines between two lines than there were beside one of them in `before`."""
    above, below = _counts(before.splitlines(keepends=True))
    result: list[str] = []
    blank: list[str] = []
    last = ""
    for line in after.splitlines(keepends=True):
        if not line.strip():
            blank.append(line)
            continue
        text = line.rstrip()
        if text in above and last in below:
            begins = not last or last.endswith(":")
            most = below[last] if begins else max(above[text], below[last])
        elif text in above or last in below:
            most = max(_MOST, above.get(text, 0), below.get(last, 0))
        else:  # both lines are new, and nothing tells what was between those that they stand for
            most = len(blank)
        result += [*blank[:most], line]
        blank, last = [], text
    return "".join([*result, *blank])


def _counts(lines: list[str]) -> tuple[dict[str, int], dict[str, int]]:
    """The most blank lines above, and below, lines of each text.

    Those above decorators are above what they decorate, too.
    """
    above: dict[str, int] = {}
    below: dict[str, int] = {}
    last, count = "", 0
    for line in lines:
        if not line.strip():
            count += 1
            continue
        text = line.rstrip()
        decorated = above[last] if last.lstrip().startswith("@") else 0
        above[text] = max(above.get(text, 0), count, decorated)
        below[last] = max(below.get(last, 0), count)
        last, count = text, 0
    below[last] = max(below.get(last, 0), count)
    return above, below
