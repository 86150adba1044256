"""Requirements and addresses of packages, as pip and conda are given them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from tpulint.finding import Span
from tpulint.project_files.parts import Address, Command, Part, Requirement, Word

_ADDRESSES = ("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-c", "--channel")
#: Options of pip and conda with a value.
_WITH_VALUE = {
    *_ADDRESSES,
    "-r",
    "--requirement",
    "-t",
    "--target",
    "-n",
    "--name",
    "-p",
    "--prefix",
    "--file",
}
_WITH_VALUE |= {"--constraint", "--python-version", "--platform", "--abi", "--timeout", "--retries", "--root"}
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_CONDA = re.compile(r"(?:(?P<channel>[\w./-]+)::)?(?P<name>[A-Za-z0-9_][\w.-]*)\s*(?P<version>[=<>!~ ].*)?$")


def requirement(text: str, start: int, removal: Span | None) -> Requirement | None:
    """The requirement that a text is; None if it is none."""
    from packaging.requirements import InvalidRequirement
    from packaging.requirements import Requirement as Parsed

    stripped = text.split(" --hash")[0].strip()
    if not _NAME.match(stripped) or "://" in stripped.partition("@")[0]:
        return None
    try:
        parsed = Parsed(stripped)
    except InvalidRequirement:
        return None
    begin = start + text.index(stripped)
    return Requirement(
        Span(begin, begin + len(stripped)),
        removal,
        normalized(parsed.name),
        frozenset(parsed.extras),
        str(parsed.specifier) or (parsed.url or ""),
        stripped,
    )


def conda_requirement(text: str, start: int, removal: Span | None) -> Requirement | None:
    """The requirement that a text of conda is, such as `cudatoolkit=11.3`; None if it is none."""
    match = _CONDA.match(text.strip())
    if match is None:
        return None
    begin = start + text.index(text.strip())
    span = Span(begin, begin + len(text.strip()))
    version = (match["version"] or "").strip()
    return Requirement(
        span, removal, normalized(match["name"]), frozenset(), version, text.strip(), is_conda=True
    )


def normalized(name: str) -> str:
    """The name of a distribution as the package index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def of_lines(text: str) -> Iterator[Part]:
    """The parts of a requirements file."""
    start = 0
    for line in text.splitlines(keepends=True):
        content = re.split(r"(?:^|\s)#", line, maxsplit=1)[0].rstrip()
        whole = Span(start, start + len(line))
        continues = content.endswith("\\")
        if content.lstrip().startswith("-"):
            yield from _options(content, start, None if continues else whole)
        elif content.strip():
            found = requirement(content.removesuffix("\\"), start, None if continues else whole)
            yield from [found] if found else []
        start += len(line)


def _options(content: str, start: int, removal: Span | None) -> Iterator[Part]:
    for match in re.finditer(r"(?:^|\s)(-{1,2}[a-z-]+)(?:\s*=\s*|\s+)(\S+)", content):
        if match[1] in _ADDRESSES:
            yield Address(Span(start + match.start(2), start + match.end(2)), removal, match[2])


def of_command(text: str, command: Command) -> Iterator[Part]:
    """The requirements and addresses that a command installs; none if it installs nothing."""
    found = _installed(command)
    if found is None:
        return
    words, is_conda = found
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word.text is None:
            continue
        name, equals, value = word.text.partition("=")
        if word.text.startswith("-"):
            if name in _WITH_VALUE and not equals and position < len(words):
                given = words[position]
                position += 1
                if name in _ADDRESSES and given.text is not None:
                    yield Address(given.span, _with_blank(text, word.span.start, given.span.end), given.text)
            elif name in _ADDRESSES and equals:
                span = Span(word.span.end - len(value), word.span.end)
                yield Address(span, _with_blank(text, word.span.start, word.span.end), value)
            continue
        made = (conda_requirement if is_conda else requirement)(word.text, 0, None)
        if made is not None:
            yield Requirement(
                word.span,
                _with_blank(text, word.span.start, word.span.end) if len(words) > 1 else None,
                made.name,
                made.extras,
                made.version,
                text[word.span.start : word.span.end],
                is_conda,
            )


def _installed(command: Command) -> tuple[Sequence[Word], bool] | None:
    """The arguments of `pip install`, `conda install` and the like, and whether it is conda."""
    texts = [word.text or "" for word in command.words]
    for program, is_conda in (("conda", True), ("mamba", True), ("micromamba", True)):
        if command.program == program and "install" in texts[1:3]:
            return command.words[texts.index("install") + 1 :], is_conda
    for number, text in enumerate(texts):
        if re.fullmatch(r"(?:.*/)?pip[\d.]*", text) and texts[number + 1 : number + 2] == ["install"]:
            return command.words[number + 2 :], False
    return None


def _with_blank(text: str, start: int, end: int) -> Span:
    """A word with the blank in front of it, but not with the end of a line."""
    while start > 0 and text[start - 1] in " \t":
        start -= 1
    return Span(start, end)


def moved(found: Requirement, span: Span) -> Requirement:
    """A requirement that was read from a value, at the place of the value."""
    return dataclasses.replace(found, span=span)
