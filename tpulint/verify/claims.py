"""What run.py claims of the original, what happened, and whether the two agree."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Word(StrEnum):
    """The words in which a claim is made and in which a run is summed up."""

    EQUAL = "equal"
    NARROWED = "narrowed"
    DIFFERS = "differs"
    HOST = "host"
    RAISES = "raises"
    CRASHES = "crashes"
    COMPILES = "compiles"
    NOTHING = "nothing to compare"
    HANGS = "hangs"
    BROKEN = "broken"
    STOOD_IN = "stood in for"


_LINE = 300

# What no claim may ask for: these say that the case itself, not the code in it, went wrong.
_UNCLAIMABLE = {Word.NOTHING, Word.HANGS, Word.BROKEN, Word.STOOD_IN}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened in one run. For `raises`, `error` is the exception's type and `detail` its message."""

    word: Word
    detail: str = ""
    error: str = ""

    @property
    def head(self) -> str:
        """The word, with the type of an exception."""
        return f"raises {self.error}" if self.word is Word.RAISES else str(self.word)

    def __str__(self) -> str:
        head = self.head
        # Compilers' messages go on for pages; the first line says what it is.
        lines = self.detail.strip().splitlines() or [""]
        first = lines[0] if len(lines[0]) <= _LINE else lines[0][: _LINE - 3] + "..."
        return f"{head}: {first}" if first else head


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of run.py, read."""

    word: Word
    error: str = ""
    pattern: str = ""

    def __str__(self) -> str:
        if self.word is not Word.RAISES:
            return str(self.word)
        return f"raises {self.error}: {self.pattern}" if self.pattern else f"raises {self.error}"

    def holds(self, outcome: Outcome) -> bool:
        """Whether this is what happened; an exception's type is compared by its own name, not its bases."""
        if self.word is not outcome.word:
            # Narrowing to 32 bits happens to every program; only a claim that names it asks for it.
            return self.word is Word.EQUAL and outcome.word is Word.NARROWED
        if self.word is Word.RAISES:
            return self.error == outcome.error and re.search(self.pattern, outcome.detail) is not None
        return True


def read_claim(text: object) -> Claim:
    """The claim that a string makes; ValueError, saying what is wrong, for any other value."""
    if not isinstance(text, str):
        raise ValueError(f"a claim is a string, not {text!r}")  # one kind of error to callers
    head, _, pattern = text.partition(":")
    words = head.split()
    if words[:1] == ["raises"] and len(words) == 2:
        try:
            re.compile(pattern.strip())
        except re.error as error:
            raise ValueError(f"claim {text!r}: {error}") from None
        return Claim(Word.RAISES, words[1].rpartition(".")[2], pattern.strip())
    if text in {str(word) for word in Word} and text != Word.RAISES and Word(text) not in _UNCLAIMABLE:
        return Claim(Word(text))
    raise ValueError(
        f"claim {text!r} is none of: equal, differs, host, narrowed, crashes, compiles,"
        ' "raises TypeName", "raises TypeName: regex"'
    )
