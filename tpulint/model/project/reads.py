"""Records what the analysis of one file asks about its project, so that the cache knows what it depends on.

A finding depends on the text of its file and on the answers of the project. `RecordedProject` stands for a
`ProjectFacts` while a file is analyzed, and keeps each question with its answer. `Answers` puts the same
questions to another project, and tells by a digest whether the answers are still the same.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, cast

from tpulint.model.project.facts import ModuleFacts
from tpulint.model.project.programs import Programs
from tpulint.model.project.project import ProjectFacts

#: A question: the name of an attribute or method of `ProjectFacts`, how it is read, and the arguments.
Read = tuple[Any, ...]

_TEXTS = frozenset({str, type(None)})
_VALUE = "value"
_CALL = "call"
_ITEM = "item"
_HAS = "has"
_NAMES = "names"
_FILLED = "filled"


class RecordedProject:
    """A project that keeps each question that it is asked, with the answer.

    It has the members of `ProjectFacts`.
    """

    def __init__(self, project: ProjectFacts) -> None:
        self._project = project
        self.answers: dict[Read, Any] = {}

    @property
    def reads(self) -> tuple[Read, ...]:
        """All questions so far, in their order."""
        return tuple(self.answers)

    def as_project(self) -> ProjectFacts:
        """The same object, for those who take a project."""
        return cast("ProjectFacts", self)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._project, name)
        if isinstance(member, Programs):
            member = _RecordedPrograms(self.answers, member)
        elif isinstance(member, Mapping):
            member = _RecordedMapping(self.answers, name, member)
        elif callable(member):
            member = _recorded(self.answers, name, member)
        else:
            self.answers[name, _VALUE] = member
        self.__dict__[name] = member
        return member


class _RecordedMapping(Mapping[str, Any]):
    """A mapping by the names of modules or functions that keeps each question."""

    def __init__(self, answers: dict[Read, Any], name: str, mapping: Mapping[str, Any]) -> None:
        self._answers, self._name, self._mapping = answers, name, mapping

    def __contains__(self, key: object) -> bool:
        self._answers[self._name, _HAS, key] = found = key in self._mapping
        return found

    def __getitem__(self, key: str) -> Any:
        if key not in self:
            raise KeyError(key)
        self._answers[self._name, _ITEM, key] = found = self._mapping[key]
        return found

    def __iter__(self) -> Iterator[str]:
        names = tuple(self._mapping)
        self._answers[self._name, _NAMES] = names
        return iter(names)

    def __len__(self) -> int:
        return len(tuple(iter(self)))

    def __bool__(self) -> bool:
        self._answers[self._name, _FILLED] = filled = bool(self._mapping)
        return filled


class _RecordedPrograms:
    """`Programs` that keep of which sets a module was asked to be a part."""

    def __init__(self, answers: dict[Read, Any], programs: Programs) -> None:
        self._answers, self._programs = answers, programs

    def asks_gradients(self, module: str) -> bool:
        """As `Programs.asks_gradients`, which asks two of the sets."""
        return Programs.asks_gradients(cast("Programs", self), module)

    def __getattr__(self, name: str) -> Any:
        member = _RecordedNames(self._answers, name, getattr(self._programs, name))
        self.__dict__[name] = member
        return member


class _RecordedNames:
    """One of the sets of `Programs`."""

    def __init__(self, answers: dict[Read, Any], name: str, names: frozenset[str]) -> None:
        self._answers, self._name, self._names = answers, name, names

    def __contains__(self, module: str) -> bool:
        self._answers["programs", _HAS, self._name, module] = found = module in self._names
        return found


def _recorded(answers: dict[Read, Any], name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def ask(*arguments: Any) -> Any:
        if not _TEXTS.issuperset(map(type, arguments)):
            arguments = tuple(map(_hashable, arguments))
        question = (name, _CALL, *arguments)
        if question not in answers:
            answers[question] = _kept(method(*arguments))
        return answers[question]

    return ask


def _hashable(argument: str | Iterable[str] | None) -> str | tuple[str, ...] | None:
    return argument if argument is None or isinstance(argument, str) else tuple(argument)


def _kept(answer: Any) -> Any:
    """An answer that can be read several times."""
    return tuple(answer) if isinstance(answer, Iterator) else answer


class Answers:
    """Digests of what one project answers, each question put once."""

    def __init__(self, project: ProjectFacts) -> None:
        self.project = project
        self._digests: dict[Read, bytes] = {}
        self._modules: dict[int, bytes] = {}

    def digest(self, reads: Iterable[Read]) -> bytes:
        """A digest of the answers to some questions, in their order."""
        total = hashlib.blake2b(digest_size=16)
        for read in reads:
            known = self._digests.get(read)
            if known is None:
                known = self._digests[read] = self._canonical(self._answer(read))
            total.update(known)
        return total.digest()

    def digest_of(self, answers: Mapping[Read, Any]) -> bytes:
        """A digest of answers that this project gave before."""
        for read, answer in answers.items():
            if read not in self._digests:
                self._digests[read] = self._canonical(answer)
        return self.digest(answers)

    def _answer(self, read: Read) -> Any:
        name, how, *arguments = read
        member = getattr(self.project, name)
        match how:
            case "value":
                return member
            case "call":
                # What raised no error before may do so for names that are gone.
                try:
                    return _kept(member(*arguments))
                except KeyError as error:
                    return repr(error)
            case "item":
                return member.get(*arguments)
            case "names":
                return tuple(member)
            case "filled":
                return bool(member)
        *field, key = arguments
        return key in (getattr(member, field[0]) if field else member)

    def _canonical(self, answer: Any) -> bytes:
        return _short(self._text(answer).encode("utf-8", "surrogatepass"))

    def _text(self, answer: Any) -> str:
        if answer is None or isinstance(answer, str | bool):
            return repr(answer)
        if isinstance(answer, ModuleFacts):
            if id(answer) not in self._modules:
                self._modules[id(answer)] = _short(repr(answer).encode("utf-8", "surrogatepass"))
            return self._modules[id(answer)].hex()
        if isinstance(answer, ast.AST):
            return ast.dump(answer)
        if isinstance(answer, Set):
            return repr(sorted(answer))
        if isinstance(answer, tuple | list) and any(isinstance(one, tuple | Set) for one in answer):
            return f"({','.join(map(self._text, answer))})"
        return repr(answer)


def _short(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=8).digest()
