"""The parts of files around the code, as rules see them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tpulint.finding import Span


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a file.

    Args:
        span: where it stands.
        removal: what is deleted to remove it, such as its whole line; None where it cannot go alone.
    """

    span: Span
    removal: Span | None


@dataclass(frozen=True, slots=True)
class Requirement(Part):
    """A distribution that is installed, by pip or by conda.

    Args:
        name: its normalized name.
        extras: what stands in brackets behind it, such as `cuda12`.
        version: how its version is restricted, such as `==2.1.0+cu121`; "" if it is not.
        text: the requirement as it is written.
        is_conda: whether conda installs it.
    """

    name: str
    extras: frozenset[str]
    version: str
    text: str
    is_conda: bool = False


@dataclass(frozen=True, slots=True)
class Address(Part):
    """Where packages come from: the address of an index, or the name of a conda channel."""

    address: str


@dataclass(frozen=True, slots=True)
class Image(Part):
    """The image that a container starts from, such as `nvidia/cuda:12.1.0-base`."""

    name: str


@dataclass(frozen=True, slots=True)
class Variable(Part):
    """A variable of the environment that gets a value; `value_span` is None where it has none."""

    name: str
    value: str
    value_span: Span | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command without its quotes; `text` is None where the shell computes it."""

    text: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class Command(Part):
    """A command that a shell runs: the words of a program and of its arguments."""

    words: tuple[Word, ...]

    @property
    def program(self) -> str:
        """The name of the program without its folder; "" where the shell computes it."""
        return (self.words[0].text or "").rpartition("/")[2]

    def option(self, *names: str) -> tuple[Word, str, Span] | None:
        """An option by one of its names: its word, its value, and where that stands; None without it."""
        for word, following in zip(self.words[1:], [*self.words[2:], None], strict=True):
            text = word.text or ""
            name, equals, value = text.partition("=")
            if name not in names:
                continue
            if equals:
                return word, value, Span(word.span.end - len(value), word.span.end)
            if following is not None and following.text is not None:
                return word, following.text, following.span
            return word, "", Span(word.span.end, word.span.end)
        return None


@dataclass(frozen=True, slots=True)
class Cell(Part):
    """A code cell of a notebook: its code."""

    code: str


@dataclass(frozen=True, slots=True)
class Directive(Part):
    """A line for a batch system, such as `#SBATCH --gres=gpu:8`: its option."""

    option: str


@dataclass(frozen=True, slots=True)
class Setting(Part):
    """A text among the values of a configuration, with its keys from the outside in."""

    keys: tuple[str, ...] = field(default=())
    value: str = ""
