"""Shell scripts: variables, simple commands, and lines for batch systems.

What commands of a pipe, a loop or a function have in common is not followed: each simple command counts by
itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tpulint.finding import Span
from tpulint.project_files import packages
from tpulint.project_files.lines import whole_lines
from tpulint.project_files.parts import Command, Directive, Part, Variable, Word

_BLANK = re.compile(r"(?:[ \t]|\\\r?\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_SEPARATOR = re.compile(r"\r?\n|;;?|&&?|\|\|?|[(){}]|\d*[<>]+&?\d*")
_WORD = re.compile(
    r"""(?:
        \\(?!\r?\n). | '[^']*' | "(?:\\.|[^"\\])*" | \$\([^()]*\) | \$\{[^}]*\} | `[^`]*`
        | [^\s\\'"`;&|<>()]
    )+""",
    re.VERBOSE | re.DOTALL,
)
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_OPENS = re.compile(r"(?:\b(?:then|do|else)|[{)])$")
_CLOSES = re.compile(r"(?:[ \t\r\n]|#[^\n]*\n)*(?:(?:fi|else|elif|done|esac)\b|\}|;;|\))")
_DIRECTIVE = re.compile(r"^#(?:SBATCH|PBS|BSUB)[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
#: Words of the shell in front of a command.
_KEYWORDS = {
    "then",
    "do",
    "else",
    "elif",
    "if",
    "while",
    "until",
    "!",
    "time",
    "exec",
    "sudo",
    "nohup",
    "{",
    "eval",
}


def parts(text: str, start: int = 0, end: int | None = None) -> Iterator[Part]:
    """The parts of a script, or of what stands between two offsets."""
    end = len(text) if end is None else end
    if start == 0:
        for match in _DIRECTIVE.finditer(text):
            yield Directive(Span(*match.span()), whole_lines(text, match.start(), match.start()), match[1])
    for words in _commands(text, start, end):
        yield from _parts_of(text, words)


def _parts_of(text: str, words: list[Word]) -> Iterator[Part]:
    while words and words[0].text in _KEYWORDS:
        words = words[1:]
    assigned = []
    exports = bool(words) and words[0].text in ("export", "declare", "env")
    rest = words[1:] if exports else words
    while rest and _assignment(text, rest[0]):
        assigned.append(rest[0])
        rest = rest[1:]
    if exports and words[0].text != "env" and rest:
        rest = []
    for word in assigned:
        alone = len(assigned) == 1 and not rest
        yield _variable(
            text, word, _alone(text, words) if alone else None, following=bool(rest) and not exports
        )
    if rest:
        command = Command(Span(rest[0].span.start, rest[-1].span.end), _alone(text, words), tuple(rest))
        yield command
        yield from packages.of_command(text, command)


def _variable(text: str, word: Word, removal: Span | None, *, following: bool) -> Variable:
    match = _ASSIGNMENT.fullmatch(text[word.span.start : word.span.end])
    assert match is not None
    value = match[2].strip("'\"")
    if removal is None and following:  # `NAME=value command`
        blank = _BLANK.match(text, word.span.end)
        removal = Span(word.span.start, blank.end() if blank else word.span.end)
    return Variable(
        word.span, removal, match[1], value, Span(word.span.start + match.start(2), word.span.end)
    )


def _assignment(text: str, word: Word) -> bool:
    return _ASSIGNMENT.fullmatch(text[word.span.start : word.span.end]) is not None


def _alone(text: str, words: list[Word]) -> Span | None:
    """The whole lines of a command that has them to itself; None for others."""
    start, end = words[0].span.start, words[-1].span.end
    lines = whole_lines(text, start, end)
    first, last = lines.start, lines.end
    behind = text[end:last].strip()
    if text[first:start].strip() or (behind and not behind.startswith("#")):
        return None
    before = text[:first].rstrip()
    if text[:first].rstrip("\r\n").endswith("\\"):
        return None
    is_only = _OPENS.search(before) is not None and _CLOSES.match(text, last) is not None
    return None if is_only else lines  # a block without commands is an error


def _commands(text: str, start: int, end: int) -> Iterator[list[Word]]:
    """The words of each simple command."""
    words: list[Word] = []
    position, heredocs = start, list[str]()
    redirects = False
    while position < end:
        if match := _BLANK.match(text, position, end):
            position = match.end()
            continue
        if text[position] == "#" and (position == start or text[position - 1] in " \t\n;"):
            match = _COMMENT.match(text, position, end)
            assert match is not None
            position = match.end()
            continue
        if match := _HEREDOC.match(text, position, end):
            heredocs.append(match[2])
            position = match.end()
            continue
        if match := _WORD.match(text, position, end):
            if not redirects:
                words.append(Word(_plain(match[0]), Span(*match.span())))
            redirects = False
            position = match.end()
            continue
        match = _SEPARATOR.match(text, position, end)
        separator = match[0] if match else text[position]
        position += len(separator)
        redirects = "<" in separator or ">" in separator
        if redirects:
            continue
        if words:
            yield words
            words = []
        if separator.endswith("\n") and heredocs:
            position = _behind(text, position, end, heredocs)
            heredocs = []
    if words:
        yield words


def _behind(text: str, position: int, end: int, heredocs: list[str]) -> int:
    """The offset behind the bodies of here-documents."""
    for delimiter in heredocs:
        match = re.compile(rf"^[ \t]*{delimiter}[ \t]*\r?$\n?", re.MULTILINE).search(text, position, end)
        position = match.end() if match else end
    return position


def _plain(word: str) -> str | None:
    """A word without its quotes; None where the shell computes it."""
    if "$" in word or "`" in word:
        return None
    return re.sub(r"\\(.)|['\"]", lambda match: match[1] or "", word)
