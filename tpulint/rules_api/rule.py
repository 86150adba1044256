"""A rule and its handlers."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from tpulint.finding import Applicability, Effort, Finding, Severity
from tpulint.knowledge.handled import HANDLED
from tpulint.knowledge.targets import EVERY_TARGET, TORCHAX
from tpulint.project_files.parts import Part
from tpulint.rules_api.pattern import Pattern, pattern_of

DOCS = "https://github.com/tpulint/tpulint/blob/main/docs/rules"

#: How the codes of tpulint's own rules begin: PyTorch on TPU, newer versions of PyTorch, JAX, TensorFlow,
#: torch_xla, the files around the code, and frameworks for training.
OWN_PREFIXES = ("TPU", "UPG", "JAX", "TF", "XLA", "ENV", "FRW")

#: The types of nodes that a file lists by name.
_NAMED = (ast.Call, ast.Attribute, ast.Constant)

Check = Callable[..., Iterator[Finding]]
_C = TypeVar("_C", bound=Check)


@dataclass(frozen=True, slots=True)
class Handler:
    """One function of a rule and the nodes that it wants; see `Rule.on`.

    A handler with a `pattern` wants the nodes of LibCST that match it, whatever their type.
    """

    node: type[ast.AST]
    named: frozenset[str] | Callable[[str], bool]
    passing: frozenset[str]
    where: Callable[[Any], bool] | None
    traced: bool
    check: Check
    handled: str = ""
    pattern: Pattern | None = None


class Rule:
    """A rule: its code, what it is about, and its handlers.

    Args:
        code: letters and three digits, such as `ACME101`, which never change. tpulint's own begin with
            `TPU`, `UPG`, `JAX`, `TF`, `XLA`, `ENV` or `FRW`.
        summary: what the rule finds: one line without a capital letter or a full stop.
        module: `__name__`. The name of the module is the name of the rule, with hyphens, and its docstring is
            the page of the rule.
        fix: the best applicability of the rule's fixes, such as `Applicability.SAFE`; None if the rule never
            offers a fix.
        former: earlier names of the rule, which suppressions and settings may still use.
        optional: if true, the rule is off until `select` or `extend-select` names it by its code, a prefix of
            its code, or its name; `ALL` does not select it.
        severity: what happens on a TPU if the code stays as it is; a finding may have another one.
        effort: how long a change by hand takes where there is no fix; by default minutes for rules with
            fixes, and hours for those without.
        targets: the names of the targets that the rule is for, such as `knowledge.targets.EVERY_TARGET`;
            only torchax by default. Fixes and messages name the torchax device, `"jax"`, for which the
            device of the target is written.
        url: the address of the rule's page. None for rules of packs by default.

    Raises:
        ValueError: for a module that is in no package, and for a target that there is not.
    """

    def __init__(
        self,
        code: str,
        summary: str,
        *,
        module: str,
        fix: Applicability | None,
        former: tuple[str, ...] = (),
        optional: bool = False,
        severity: Severity = Severity.BLOCKS,
        effort: Effort | None = None,
        targets: Collection[str] = (TORCHAX.name,),
        url: str | None = None,
    ) -> None:
        self.code = code
        self.summary = summary
        self.module = module
        self.fixable = fix
        self.former = former
        self.optional = optional
        self.severity = severity
        self.effort = effort or (Effort.MINUTES if fix is not None else Effort.HOURS)
        self.targets = frozenset(targets)
        self.folder = module.rpartition(".")[2]
        self.name = self.folder.replace("_", "-")
        if "." not in module:
            raise ValueError(f"rule {code}: the module `{module}` is in no package; pass `module=__name__`")
        if not self.targets <= EVERY_TARGET:
            raise ValueError(f"rule {code}: `targets` are among {', '.join(sorted(EVERY_TARGET))}")
        self.family = module.split(".")[-2]
        self.url = url or (f"{DOCS}/{self.name}.md" if code.startswith(OWN_PREFIXES) else None)
        self.handlers: list[Handler] = []
        #: The handlers of parts of files that are not Python, each with the class of the parts.
        self.part_handlers: list[tuple[type[Part], Check]] = []

    @property
    def family_title(self) -> str:
        """What the rules of the family are about, in words: the first line of its package's docstring."""
        doc = sys.modules[self.module.rpartition(".")[0]].__doc__ or self.family.replace("_", " ")
        return doc.strip().splitlines()[0].rstrip(".")

    @property
    def doc(self) -> str:
        """The rule's page, in Markdown."""
        return sys.modules[self.module].__doc__ or ""

    def on(
        self,
        node: object,
        *,
        named: Iterable[str] | Callable[[str], bool] = (),
        passing: Iterable[str] = (),
        where: Callable[[Any], bool] | None = None,
        traced: bool = False,
        handled: str = "",
    ) -> Callable[[_C], _C]:
        """Register a handler: a generator of findings, which is called with a node and its context.

        Args:
            node: the type of the nodes, such as `ast.Call`, or a pattern of `libcst.matchers` or of
                `tpulint.rules_api.matchers`. A handler for `ast.Module` is called once for each file.
            named: for `ast.Call`, the names in which the callee may end, also if it is imported under another
                name; for `ast.Attribute`, the names of the attribute; for `ast.Constant`, the texts of the
                string. Either a set of names, or a function that is called with a name and returns a bool.
                Without it, the handler is called for all nodes of the type. For a pattern of calls, a set of
                names as for `ast.Call`; not for other patterns.
            passing: for `ast.Call`, names of keyword arguments: the call has to pass one of them.
                `"**"` stands for an unpacked mapping. Not for patterns.
            where: a function that is called with the node of `ast`, and returns whether the handler is called
                for it.
            traced: if true, the handler is called only in code that JAX traces.
            handled: an entry of the table `tpulint.knowledge.handled`, which names what the runtime
                torchax-compat handles. In programs with the runtime, only findings with a fix are reported.

        Raises:
            TypeError: for a `node` that is neither, and for options that do not go with it; the text begins
                with the code of the rule.
        """
        try:
            kind, pattern = _wanted(node, named, passing, handled)
        except TypeError as error:
            raise TypeError(f"rule {self.code}: {error}") from error

        def register(check: _C) -> _C:
            names = named if callable(named) else frozenset(named)
            passed = frozenset(passing)
            self.handlers.append(Handler(kind, names, passed, where, traced, check, handled, pattern))
            return check

        return register

    def on_part(self, kind: type[Part]) -> Callable[[_C], _C]:
        """Register a handler for parts of files around the code, such as requirements and commands.

        Args:
            kind: the class of the parts, such as `Requirement` of `tpulint.rules_api.files`.
        """

        def register(check: _C) -> _C:
            self.part_handlers.append((kind, check))
            return check

        return register


def _wanted(
    node: object, named: Iterable[str] | Callable[[str], bool], passing: Iterable[str], handled: str
) -> tuple[type[ast.AST], Pattern | None]:
    """The type of nodes of a handler, and its pattern, if it has one.

    Raises:
        TypeError: if the options do not go together.
    """
    for option, value in (("named", named), ("passing", passing)):
        if isinstance(value, str):
            raise TypeError(f"`{option}` is a string, and is to be a set of strings")
    if handled and handled not in HANDLED:
        raise TypeError(f"`handled` is no entry of `tpulint.knowledge.handled`: {handled!r}")
    if not (isinstance(node, type) and issubclass(node, ast.AST)):
        if passing or callable(named):
            raise TypeError("a pattern goes with names, and with neither `passing` nor a function as `named`")
        return ast.AST, pattern_of(node, named)
    if named and node not in _NAMED:
        listed = ", ".join(f"`ast.{one.__name__}`" for one in _NAMED)
        raise TypeError(f"`named` is for {listed}, not for `ast.{node.__name__}`")
    if passing and node is not ast.Call:
        raise TypeError(f"`passing` is for `ast.Call`, not for `ast.{node.__name__}`")
    return node, None
