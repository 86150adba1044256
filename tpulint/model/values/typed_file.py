"""A file whose expressions have inferred types: what inference of one function asks of the others.

`inference.Inference` implements it. Functions and classes that infer parts of a file, or use inferred types,
take a `TypedFile`, since the inference of one function needs that of others.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Mapping

from tpulint.model.names.scopes import Scope
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.parsed_file import ModulePath
from tpulint.model.values.kinds import Kind
from tpulint.source import Source

#: Types of the names, and of attributes of names (`self.x`), at one point of the flow.
Environment = dict[str, Kind]


class FunctionTypes:
    """The inferred types of one function, or of a file's top level."""

    def __init__(self) -> None:
        #: The type of each expression, by its identity.
        self.kinds: dict[int, Kind] = {}
        #: Offsets of factory calls whose host tensor meets a tensor on the device.
        self.mixed: set[int] = set()
        #: Subscripts, by identity, through which device tensors are written into host tensors made here.
        self.written: set[int] = set()
        #: What the function's names hold in the end, for the functions nested in it.
        self.final: Environment = {}
        #: What its parameters are when it is called.
        self.initial: Environment = {}
        #: Whether it is a generator, whose calls give something else.
        self.yields = False
        #: Types of what the function returns.
        self.returned: list[Kind] = []
        #: By the identity of an `if`, the types that the names its branches assign have before it.
        self.former: dict[int, Environment] = {}


class TypedFile(ProjectFile, ABC):
    """A file of a project with inferred types."""

    def __init__(self, source: Source, path: ModulePath) -> None:
        super().__init__(source, path)
        #: The calls that made host tensors, by their offsets, as far as inference has come.
        self.makers: dict[int, ast.Call] = {}

    @abstractmethod
    def kind(self, node: ast.expr, scope: Scope) -> Kind:
        """The inferred type of an expression of this scope."""

    @abstractmethod
    def kind_so_far(self, node: ast.expr, scope: Scope) -> Kind:
        """The type of an expression of this scope, as far as inference has come; never begins it."""

    @abstractmethod
    def flow(self, scope: Scope) -> FunctionTypes | None:
        """The inference of a function or of the top level; None for class bodies and while under way."""

    @abstractmethod
    def flow_for(self, scope: Scope, given: Mapping[str, Kind]) -> FunctionTypes:
        """The inference of a function for what one call passes to it."""

    @abstractmethod
    def free_name(self, name: str, scope: Scope) -> Kind:
        """The type of a name that a function takes from around it."""

    @abstractmethod
    def attribute_kind(self, cls: str, attribute: str) -> Kind:
        """The type of an attribute of an instance."""

    @abstractmethod
    def returned_kind(self, function: str) -> Kind:
        """The type that a function of the project returns."""
