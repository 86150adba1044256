"""One file as a rule sees it, at one place: what code means, where it stands, and how to change it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from typing import Protocol, TypeVar

from tpulint.finding import Applicability, Finding, Fix, Location, Related, Span
from tpulint.knowledge.runtime import DISABLE, ENABLE, PACKAGE
from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.project.trace_path import TracePath
from tpulint.model.syntax.imports import respelled
from tpulint.model.values.kinds import Instance, Kind
from tpulint.model.values.pending import body_around
from tpulint.plan import Change, Import, Rewrite
from tpulint.rules_api.devices import Devices
from tpulint.rules_api.editing import Editing
from tpulint.rules_api.fixes import assembled, within_formatted
from tpulint.rules_api.names import Names
from tpulint.rules_api.program import Program
from tpulint.rules_api.trace import Trace
from tpulint.rules_api.types import Types
from tpulint.source import Source

_T = TypeVar("_T")


class Reporter(Protocol):
    """What a finding says of the rule that made it."""

    code: str
    name: str
    url: str | None


class Context(Editing):
    """One file as a rule sees it, at one location."""

    __slots__ = ("__dict__", "module", "rule", "scope")

    def __init__(self, rule: Reporter, module: Module, scope: Scope) -> None:
        self.rule = rule
        self.module = module
        self.scope = scope

    # namespaces

    @property
    def names(self) -> Names:
        """Qualified names, scopes, and what names are bound to."""
        return Names(self.module, self.scope)

    @property
    def types(self) -> Types:
        """Inferred types of values, and how values are used."""
        return Types(self.module, self.scope)

    @property
    def trace(self) -> Trace:
        """Whether and why code is traced, and what outlives a trace."""
        return Trace(self.module, self.scope)

    @property
    def devices(self) -> Devices:
        """Checks for CUDA, expressions that name devices, and where tensors live."""
        return Devices(self.module, self.scope)

    @property
    def program(self) -> Program:
        """The project, and the programs that the file is a part of."""
        return Program(self.module, self.scope)

    # the file, and other locations in it

    @property
    def source(self) -> Source:
        """The file's text and layout."""
        return self.module.source

    @cached_property
    def tree(self) -> ast.Module:
        """The file's syntax tree."""
        return self.module.source.tree

    def at(self, scope: Scope) -> Context:
        """The same file at another location."""
        return Context(self.rule, self.module, scope)

    def calls(self, name: str) -> Iterator[tuple[ast.Call, Context]]:
        """The file's calls whose callee ends in a name, each with its location."""
        for node, scope in self.module.index.calls.get(name, ()):
            if isinstance(node, ast.Call):
                yield node, self.at(scope)

    def calls_on(self, value: ast.expr, method: str) -> Iterator[tuple[ast.Call, Context]]:
        """The file's calls of a method on what is written like a value, each with its location."""
        text = self.text(value)
        for call, at in self.calls(method):
            if isinstance(call.func, ast.Attribute) and self.text(call.func.value) == text:
                yield call, at

    def passed(self, parameter: ast.Name) -> Iterator[tuple[ast.expr, Context]]:
        """The values that calls in this file pass as a parameter of this function, each with its location."""
        for value, scope in self.module.handed(parameter.id, self.scope):
            yield value, self.at(scope)

    def once(self, question: Callable[[Context], _T]) -> _T:
        """The answer to a question about the whole file, which is asked once for it."""
        if question not in self.module.answers:
            self.module.answers[question] = question(self)
        answer: _T = self.module.answers[question]
        return answer

    # FLAT

    def qualified_name(self, node: ast.AST) -> str | None:
        """The qualified name of a plain or dotted name, such as `torch.cuda.synchronize`."""
        return self.names.qualified(node)

    def kind(self, node: ast.expr) -> Kind:
        """The inferred type of an expression."""
        return self.types.kind(node)

    def is_module(self, kind: Kind) -> bool:
        """Whether the value is a `torch.nn.Module`."""
        return self.types.is_module(kind)

    @property
    def trace_path(self) -> TracePath | None:
        """Whether this code is traced; the call chain by which it is, or None."""
        return self.trace.path

    @property
    def is_imported(self) -> bool:
        """Whether another file of the project imports this file, or this file is part of a package."""
        return self.program.is_imported

    def pending(self, statement: ast.stmt, waits: Callable[[ast.stmt], bool]) -> list[str]:
        """Names of tensors that the function computes before a statement, after it last waited for them."""
        return self.devices.pending(statement, waits)

    def top_level_calls(self, name: str) -> Iterator[ast.Call]:
        """Calls whose callee ends in a name, outside of any function or class."""
        return self.names.top_level_calls(name)

    @property
    def is_import_time(self) -> bool:
        """Whether the code runs when its file is imported."""
        return self.program.is_import_time

    @property
    def places_tensors(self) -> bool:
        """Whether this file moves a tensor or module to a device."""
        return self.program.places_tensors

    @property
    def serves_device(self) -> bool:
        """Whether the program uses a device or the torchax environment."""
        return self.program.serves_device

    @property
    def is_trained(self) -> bool:
        """Whether the program computes gradients."""
        return self.program.is_trained

    @property
    def is_differentiated(self) -> bool:
        """Whether the program computes its gradients with JAX."""
        return self.program.is_differentiated

    @property
    def asks_gradients(self) -> bool:
        """Whether the program computes gradients, with torch or with JAX."""
        return self.program.asks_gradients

    @property
    def has_runtime(self) -> bool:
        """Whether the program has the runtime torchax-compat, or gets it as it computes gradients."""
        return self.program.has_runtime

    def runtime_handles(self, subject: str, operator: str = "") -> bool:
        """Whether the program has the runtime torchax-compat, which handles this, as a test shows."""
        return self.program.runtime_handles(subject, operator)

    def is_parameter(self, node: ast.expr) -> bool:
        """Whether the expression is a parameter of the enclosing function, and so may be a tensor."""
        return self.names.is_parameter(node)

    def data_dependent_size(self, call: ast.Call) -> ast.expr | None:
        """Whether a size in the call depends on a tensor's value; that size, or None."""
        return self.types.data_dependent_size(call)

    def sizes_a_factory(self, node: ast.expr) -> bool:
        """Whether the expression is part of the size of a new tensor, which is reported instead."""
        return self.types.sizes_a_factory(node)

    def names_at_hand(self, node: ast.expr) -> Iterator[tuple[str, Kind]]:
        """Names that are certainly bound where a node is evaluated, nearest first, with their types."""
        return self.names.at_hand(node)

    def only_with_cuda(self, node: ast.AST) -> bool:
        """Whether the code runs only if CUDA is available, and so never on a TPU host."""
        return self.devices.only_with_cuda(node)

    def only_with_processes(self, node: ast.AST) -> bool:
        """Whether the code runs only with several processes, and so in a process group."""
        return self.devices.only_with_processes(node)

    def is_optional(self, statement: ast.stmt) -> bool:
        """Whether the import is optional; the program continues if it fails or is skipped."""
        return self.names.is_optional_import(statement)

    def first_import(self, package: str) -> ast.stmt | None:
        """The first import of the package in this file that is not optional, if there is one."""
        return self.names.first_import(package)

    def loads(self, name: str) -> Iterator[ast.Name]:
        """All places of the file that read a name, whatever it means there."""
        return self.names.loads(name)

    def taken(self, owner: ast.expr, names: Collection[str]) -> Iterator[ast.Attribute]:
        """All places of the file with one of these attributes of what is written as `owner`."""
        return self.names.attributes_of(owner, names)

    def assigned_values(self, name: ast.expr) -> list[ast.expr]:
        """The values of plain assignments to a name, or to whatever is written like something else."""
        return self.names.assigned_values(name)

    def is_function(self, node: ast.expr) -> bool:
        """Whether the expression is a lambda, or the name of a function that `def` defines."""
        return self.names.is_function(node)

    def is_caught(self, node: ast.AST) -> bool:
        """Whether an `except` around the code catches the error that is raised without CUDA."""
        return self.devices.is_caught(node)

    def options(self, node: ast.expr, callee: str) -> dict[str, ast.expr]:
        """The items of a dictionary, by their keys, if the file unpacks a dictionary for a callee."""
        return self.names.options(node, callee)

    def is_bound(self, name: str) -> bool:
        """Whether the name is defined here."""
        return self.names.is_bound(name)

    def assigned_often(self, kind: Instance, attribute: str) -> bool:
        """Whether the class does not assign the attribute exactly once."""
        return self.types.assigned_often(kind, attribute)

    def handed(self, parameter: ast.Name) -> Iterator[tuple[ast.expr, Context]]:
        """The values that calls in this file pass as a parameter of this function, each with its location."""
        return self.passed(parameter)

    def defines_method(self, kind: Instance, name: str) -> bool:
        """Whether this project defines the method in the class."""
        return self.types.defines_method(kind.cls, name)

    def respelled(self, statement: ast.ImportFrom, alias: ast.alias, target: str) -> Rewrite:
        """The rewrite that imports one name of a statement from elsewhere, under the name that it had."""
        return self.replace(statement, self.lines(statement, *respelled(statement, alias, target)))

    # END FLAT

    # places

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around a node."""
        return self.module.parent(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, innermost first."""
        return self.module.ancestors(node)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node stands in."""
        return self.module.statement(node)

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements that a statement is one of."""
        return self.module.block(statement)

    @property
    def function_body(self) -> list[ast.stmt]:
        """The statements of the enclosing function, or of the file."""
        return body_around(self.module, self.scope)

    @property
    def device(self) -> str:
        """The device as a text, where a fix writes it: torchax's, with CUDA's if that is kept."""
        kept = self.module.project.keeps_gpu
        return '"cuda" if torch.cuda.is_available() else "jax"' if kept else '"jax"'

    # findings and fixes

    def finding(
        self,
        node: ast.expr | ast.stmt,
        message: str,
        fix: Fix | None = None,
        related: tuple[Related, ...] = (),
    ) -> Finding:
        """A finding at a node; one in traced code carries the chain from its root.

        Before Python 3.12 the parser places what stands in nested f-strings wrongly: a finding there has no
        fix, and stands at the f-string if need be.
        """
        span = self.span(node)
        formatted = [outer for outer in self.ancestors(node) if isinstance(outer, ast.JoinedStr)]
        if formatted:
            if not self.stands(node):
                fix, span = None, self.span(formatted[-1])
            elif fix is not None:
                fix = within_formatted(self.module, formatted[0], fix) if len(formatted) == 1 else None
        return self.finding_at(span, message, fix, related or self._chain())

    def stands(self, node: ast.expr | ast.stmt) -> bool:
        """Whether the parser locates the node correctly, which it does not in some f-strings."""
        try:
            return ast.dump(ast.parse(f"({self.text(node)}\n)", mode="eval").body) == ast.dump(node)
        except (SyntaxError, ValueError):
            return False

    def finding_at(
        self, span: Span, message: str, fix: Fix | None = None, related: tuple[Related, ...] = ()
    ) -> Finding:
        """A finding at a span."""
        source = self.module.source
        start, end = source.location(span.start), source.location(span.end)
        return Finding(
            source.path,
            start,
            end,
            self.rule.code,
            self.rule.name,
            _one_line(message),
            span,
            source.line(start.row),
            fix,
            related,
            self.rule.url,
        )

    def _chain(self) -> tuple[Related, ...]:
        path = self.trace_path
        if path is None:
            return ()
        return tuple(Related(step.path, Location(step.row, step.column), step.label) for step in path.steps)

    def fix(
        self,
        title: str,
        *changes: Change,
        applicability: Applicability = Applicability.SAFE,
        serves_cuda: bool = False,
    ) -> Fix:
        """A fix; one that claims to be safe but would eat a comment becomes unsafe.

        So does one that writes the torchax device into a program that does not enter the torchax environment:
        the program would raise until the fix that enters it, which is unsafe, is applied as well.
        A rewrite within what another one deletes goes with it.
        """
        return assembled(
            self.module,
            _one_line(title),
            changes,
            applicability,
            serves_cuda=serves_cuda,
            in_torchax=self._enters_environment,
        )

    @property
    def _enters_environment(self) -> bool:
        """Whether a program that the file is a part of enters the torchax environment."""
        return self.module.name in self.module.project.programs.entering

    def runtime_import(self, name: str = "") -> tuple[Import, ...] | None:
        """What imports the runtime, or a name of it; None where its name means something else."""
        return self.imports(f"from {PACKAGE} import {name}" if name else f"import {PACKAGE}")

    def runtime_fix(self, title: str, entry: ast.Call | None = None) -> Fix | None:
        """The fix that enters the environment through the runtime, where the file enters it now.

        `entry` is the call that enters it, by default the first of the file. None in files that do not enter
        it, and where `torchax_compat` means something else.
        """
        entries = (
            call
            for call, at in self.calls("enable_globally")
            if at.qualified_name(call.func) == "torchax.enable_globally"
        )
        first = next(entries, None)
        entry = entry or first
        imports = self.runtime_import() if entry is not None else None
        if entry is None or imports is None:
            return None
        edits = [self.replace(entry, f"{ENABLE}()")]
        if entry is first:
            edits += [
                self.replace(call, f"{DISABLE}()")
                for call, at in self.calls("disable_globally")
                if at.qualified_name(call.func) == "torchax.disable_globally"
            ]
        return self.fix(title, *imports, *edits, applicability=Applicability.UNSAFE, serves_cuda=True)


def _one_line(text: str) -> str:
    """A message or title that may quote code of several lines."""
    return " ".join(text.split()) if "\n" in text or "\r" in text else text
