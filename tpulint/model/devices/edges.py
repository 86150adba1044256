"""What a file hands on of devices, and of flags that ask for them; see `devices.flow` for the places."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tpulint.knowledge.configuration import TEXT_READERS
from tpulint.knowledge.tracing import DEVICE_STRING, is_device_word
from tpulint.model.devices.given import DOORS, given_device
from tpulint.model.devices.places import is_enumeration, last_name, places, text_of, variable
from tpulint.model.devices.targets import option, targets
from tpulint.model.names.references import default_of, positional
from tpulint.model.names.scopes import FunctionNode, Scope
from tpulint.model.project.device_flow import COMPARED, GIVEN, PRIMITIVE, SINK, UNKNOWN, Edge
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.parsed_file import ParsedFile


def device_edges(module: ProjectFile) -> tuple[Edge, ...]:
    """All that a file hands on."""
    return tuple(sorted(_Edges(module).found)) if _concerns(module) else ()


def _concerns(module: ParsedFile) -> bool:
    index = module.index
    return bool(index.named) or any(map(is_device_word, (*index.taken, *index.calls, *index.texts)))


class _Edges:
    """Collects one file's edges: from torch's doors and from what bears a telling name."""

    def __init__(self, module: ProjectFile) -> None:
        self.module = module
        self.found: set[Edge] = set()
        self.at_doors: set[str] = set()
        self._doors()
        for node, scope in self._leaves():
            for target in targets(module, node, scope):
                self._add(target, node, scope)
            for held in _held_against(module, node, scope):
                own = set(places(module, node, scope)) - PRIMITIVE
                self.found |= {(place, held) for place in own}
        self._variables()
        self._stores()
        self._enumerations()
        self._parameters()
        self._options()

    def _add(self, target: str, value: ast.expr, scope: Scope) -> None:
        self.found |= {(target, source) for source in places(self.module, value, scope)}

    def _doors(self) -> None:
        index = self.module.index
        doors = [place for name in DOORS for place in index.calls.get(name, ())]
        passing = [place for name in ("device", "**") for place in index.passing.get(name, ())]
        giving = set[Scope | None]()
        for node, scope in dict.fromkeys([*doors, *passing]):
            assert isinstance(node, ast.Call)
            function = scope.function
            owner = f"{self.module.name}.{function.qualname}" if function is not None else self.module.name
            for argument in given_device(self.module, node, scope):
                if argument in node.args or any(argument is word.value for word in node.keywords):
                    giving.add(function)  # which what a mapping may have does not tell
                self._add(SINK, argument, scope)
                self._add(f"D {owner}", argument, scope)
            if self.module.names.qualified(node.func, scope) == "torch.device":
                for target in targets(self.module, node, scope):
                    self._add(target, node, scope)
        self._compared(giving)
        self.at_doors = {source for _, source in self.found}
        #: The same without what they are names of, for a first look.
        self.names_at_doors = {re.split(r"[ .]", source)[-1] for source in self.at_doors}

    def _compared(self, giving: set[Scope | None]) -> None:
        """What functions that give torch a device compare with the name of one: it may choose that.

        That may be the name of torchax's by now. What calls hand over by the name of a device is, too.
        """
        texts = self.module.index.texts
        for text in filter(DEVICE_STRING.match, texts):
            for node, scope in texts[text]:
                outer = self.module.parent(node)
                if not isinstance(outer, ast.Compare):
                    continue
                asked = outer.left if outer.left is not node else outer.comparators[0]
                named = is_device_word(last_name(asked))
                if scope.function in giving:
                    self._add(SINK if named else COMPARED, asked, scope)
                elif named and isinstance(asked, ast.Name) and _takes(scope.function, asked.id):
                    self._add(SINK, asked, scope)

    def _leaves(self) -> Iterator[tuple[ast.expr, Scope]]:
        index = self.module.index
        for node, scope in index.named:
            assert isinstance(node, ast.Name)
            yield node, scope
        for name, found in index.taken.items():
            if is_device_word(name):
                for node, scope in found:
                    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                        yield node, scope
        for text, found in index.texts.items():
            if DEVICE_STRING.match(text):
                for node, scope in found:
                    assert isinstance(node, ast.Constant)
                    yield node, scope

    def _variables(self) -> None:
        index = self.module.index
        for scope in (index.module, *index.classes, *index.functions):
            for name, bindings in scope.bindings.items():
                values = [binding.value for binding in bindings if binding.value is not None]
                if not values or not (self._may_matter(name) or len(values) < len(bindings)):
                    continue
                place = variable(self.module, name, scope)
                if is_device_word(name) or place in self.at_doors:
                    for value in values:
                        self._add(place, value, scope)

    def _may_matter(self, name: str) -> bool:
        return name in self.names_at_doors or is_device_word(name)

    def _stores(self) -> None:
        index = self.module.index
        stored: list[tuple[str, ast.AST, Scope]] = [
            (name, node, scope)
            for name, found in index.taken.items()
            if is_device_word(name) or f".{name}" in self.at_doors
            for node, scope in found
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        ]
        for node, scope in index.nodes[ast.Subscript]:
            assert isinstance(node, ast.Subscript)
            key = text_of(node.slice)
            if isinstance(node.ctx, ast.Store) and key is not None and is_device_word(key):
                stored.append((key, node, scope))
        for name, node, scope in stored:
            outer = self.module.parent(node)
            if isinstance(outer, ast.Assign | ast.AnnAssign) and outer.value is not None:
                self._add(f".{name}", outer.value, scope)
            elif outer is not None:
                self.found.add((f".{name}", UNKNOWN))

    def _enumerations(self) -> None:
        """What an enumeration is called with, to find a member by its value."""
        for scope in self.module.index.classes:
            if is_enumeration(scope):
                place = f"E {self.module.name}.{scope.qualname}"
                self.found |= {(place, f"K {scope.name} 0"), (f"R {scope.name}", place)}

    def _parameters(self) -> None:
        for scope in self.module.index.functions:
            node = scope.node
            assert isinstance(node, FunctionNode)
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            names = [a.arg for a in arguments if self._may_matter(a.arg)]
            called = _called_as(scope) if names else ()
            by_place = positional(scope) if names else ()
            for name in names:
                place = f"P {self.module.name}.{scope.qualname} {name}"
                if not is_device_word(name) and place not in self.at_doors:
                    continue
                for last in called:
                    self.found |= {(place, f"K {last} {name}"), (place, f"K {last} **{name}")}
                    if name in by_place:
                        self.found.add((place, f"K {last} {by_place.index(name)}"))
                default = default_of(name, scope)
                if default is not None and scope.parent is not None:
                    self._add(place, default, scope.parent)
            if _is_property(scope) and is_device_word(scope.name):
                self.found.add((f".{scope.name}", f"R {scope.name}"))

    def _options(self) -> None:
        """Flags of a command line, which are the user's to choose."""
        for node, scope in self.module.index.calls.get("add_argument", ()):
            assert isinstance(node, ast.Call)
            words = {keyword.arg: keyword.value for keyword in node.keywords}
            place = option(node)
            if place is not None and is_device_word(place):
                for word in ("default", "choices"):
                    if word in words:
                        self._add(place, words[word], scope)
                self.found.add((place, GIVEN))
        for node, _ in self.module.index.passing.get("**", ()):
            assert isinstance(node, ast.Call)
            self.found.add((f"K {last_name(node.func)} **", UNKNOWN))


def _held_against(module: ParsedFile, node: ast.expr, scope: Scope) -> Iterator[str]:
    """What a device is looked up in: a list of names, or the keys of a mapping."""
    outer = module.parent(node)
    match outer:
        case ast.Compare(ops=[ast.In() | ast.NotIn()], left=left) if left is node:
            yield from places(module, outer.comparators[0], scope)
        case ast.Subscript(slice=key) if key is node:
            yield from (f"[{place}]" for place in places(module, outer.value, scope))
        case ast.Call(func=ast.Attribute(attr="get", value=mapping), args=[key, *_]) if key is node:
            yield from (f"[{place}]" for place in places(module, mapping, scope))
        case ast.Attribute(attr="type") | ast.Call(func=ast.Name(id="str")):
            yield from _held_against(module, outer, scope)


def _called_as(scope: Scope) -> tuple[str, ...]:
    if scope.name == "__init__" and scope.owner is not None:
        return (scope.owner.name, "__init__", "cls")
    return (scope.name,)


def _is_property(scope: Scope) -> bool:
    decorators = getattr(scope.node, "decorator_list", ())
    return any(last_name(decorator) in ("property", "cached_property") for decorator in decorators)


def reads_text(module: ParsedFile) -> bool:
    """Whether a file reads configurations, such as JSON and YAML, into mappings."""
    return any(module.names.calls_of(TEXT_READERS))


def _takes(function: Scope | None, name: str) -> bool:
    """Whether a function has a parameter of a name, which callers say."""
    return function is not None and name in positional(function) and default_of(name, function) is None
