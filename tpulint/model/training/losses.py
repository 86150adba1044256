"""On which losses `backward` is called, at once or by a function that they are handed to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from tpulint.model.names.qualified import dotted
from tpulint.model.names.references import by_name, method_around, positional
from tpulint.model.names.scopes import FunctionNode, Scope
from tpulint.model.project.takers import Taker, handed_to_accelerate
from tpulint.model.syntax.effects import effects, place
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.values.kinds import Instance, Unknown
from tpulint.model.values.pending import statements
from tpulint.model.values.typed_file import TypedFile

#: What may be done with a loss on its way to `backward` that torch's autograd sees through on torchax.
_PLAIN = frozenset({"mean", "sum", "values"})
#: Functions that only put losses together.
_TOGETHER = frozenset({"list", "tuple", "sum"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
#: What methods are called that tell how many steps, or processes, share a gradient.
_COUNTS = re.compile(r"steps$|accum|world_size|batch_size")
_CALLED = "__call__"
#: Shorter parts of a name tell nothing.
_TELLING = 4


class Handed(NamedTuple):
    """A call that hands a loss to a taker."""

    taker: Taker
    call: ast.Call
    loss: ast.expr
    scope: Scope


def is_plain(loss: ast.expr) -> bool:
    """Whether an expression is a variable, an entry of one, or simple arithmetic with these and numbers."""
    match loss:
        case ast.Name() | ast.Constant() | ast.Subscript(value=ast.Name(), slice=ast.Constant(value=str())):
            return True
        case ast.Attribute():
            return place(loss) is not None
        case ast.List(elts=[_, *_] as losses):
            return all(isinstance(one, ast.Name) for one in losses)
        case ast.BinOp(op=ast.Mult() | ast.Div(), right=factor) if _is_factor(factor):
            return is_plain(loss.left)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
            return is_plain(loss.left) and is_plain(loss.right)
        case ast.Call(func=ast.Attribute(value=value, attr=attr), args=[]) if attr in _PLAIN:
            return is_plain(value)
        case ast.Call(func=ast.Attribute(attr="scale") | ast.Name(id="len"), args=[value]):
            return is_plain(value)
        case ast.Call(func=ast.Name(id=name), args=[value], keywords=[]) if name in _TOGETHER:
            return is_plain(value)
        case _:
            return False


def _is_factor(node: ast.expr) -> bool:
    """Whether an expression is an attribute, an entry of one, or the count that a method tells."""
    match node:
        case ast.Subscript(value=held, slice=ast.Constant(value=str())):
            return dotted(held) is not None
        case ast.Call(func=called, args=[], keywords=[]):
            return _COUNTS.search((dotted(called) or "").rpartition(".")[2]) is not None
    return isinstance(node, ast.Attribute) and dotted(node) is not None


def backward_calls(module: ParsedFile) -> Iterator[tuple[ast.expr, Scope]]:
    """What `backward` is called on in a file, with the scope of the place."""
    for call, scope in module.index.calls.get("backward", ()):
        assert isinstance(call, ast.Call)
        yield from ((loss, scope) for loss in losses_of(call, module.names.qualified(call.func, scope)))


def losses_of(call: ast.Call, name: str | None) -> list[ast.expr]:
    """The losses on which a call of `backward` is called; `name` is its qualified name."""
    if name == "torch.autograd.backward":
        return call.args[:1] or [word.value for word in call.keywords if word.arg == "tensors"]
    handed = handed_to_accelerate(call)
    if handed is not None:
        return [handed]
    return [call.func.value] if isinstance(call.func, ast.Attribute) else []


def loops_around(module: ParsedFile, node: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of loops and comprehensions around an expression, each with what it runs over."""
    for outer in module.ancestors(node):
        if isinstance(outer, FunctionNode):
            return
        if isinstance(outer, ast.For):
            yield outer.target, outer.iter
        elif isinstance(outer, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            yield from ((one.target, one.iter) for one in outer.generators)


def takers(module: ParsedFile) -> tuple[Taker, ...]:
    """The functions of a file that call `backward` on what they are given."""
    found: dict[Taker, None] = {}
    for loss, scope in backward_calls(module):
        function = scope.function
        if function is None or not is_plain(loss):
            continue
        given = positional(function)
        names = [_listed(name, function) for name in _variables(loss)]
        # A factor, or a scaler, may be handed over beside a loss that is computed here.
        if names and all(name in given and len(function.bindings[name]) == 1 for name in names):
            name = next((name for name in names if "loss" in name.lower()), names[0])
            found[Taker(f"{module.name}.{function.qualname}", given.index(name), name)] = None
        elif names:
            for name in _behind(names, function, module):
                place = (f"{module.name}.{function.qualname}", given.index(name), name)
                found[Taker(*place, is_whole=False)] = None
    waiting = [taker for taker in found if taker.is_whole]
    while waiting:
        new = [taker for taker in _handing_on(module, waiting.pop()) if taker not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return tuple(found)


def _handing_on(module: ParsedFile, taker: Taker) -> Iterator[Taker]:
    """The functions of a file that hand a loss which they are given to a taker of the same file."""
    last = taker.function.rpartition(".")[2]
    for call, scope in module.index.calls.get(last, ()):
        function = scope.function
        assert isinstance(call, ast.Call)
        loss = _given(call, taker)
        if function is None or not isinstance(loss, ast.Name) or len(function.bindings.get(loss.id, ())) != 1:
            continue
        given, method = positional(function), method_around(scope)
        called = module.names.qualified(call.func, scope)
        if called is None and method is not None and method.owner and dotted(call.func) == f"self.{last}":
            called = f"{module.name}.{method.owner.qualname}.{last}"
        if called == taker.function and loss.id in given:
            yield Taker(f"{module.name}.{function.qualname}", given.index(loss.id), loss.id)


def _listed(name: str, function: Scope) -> str:
    """The list that a loop takes a loss from, as `losses` in `for loss in losses:`; else the name itself."""
    for node in ast.walk(function.node):
        match node:
            case ast.For(target=ast.Name(id=taken), iter=ast.Name(id=listed)) if taken == name:
                return listed
    return name


def _behind(names: list[str], function: Scope, module: ParsedFile) -> Iterator[str]:
    """The parameters that a function makes a loss of; not those that it calls."""
    given = {name for name in positional(function) if name not in ("self", "cls")}
    body = getattr(function.node, "body", [])
    if not given or not isinstance(body, list):
        return
    behind = set(names)
    for node in reversed(list(statements(body))):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            found = effects([node])
            if not behind.isdisjoint(found.writes):
                behind.update(found.reads)
    if behind.isdisjoint(given):
        return
    yield from sorted((behind & given) - set(_called(function, module)))


def _called(function: Scope, module: ParsedFile) -> Iterator[str]:
    """The names that a function calls, or hands to one of the same file that does."""
    for call, name in _calls_by_name(function):
        yield name
        other = module.functions.get(module.names.qualified(call.func, function) or "")
        if other is not None and other is not function:
            called = {name for _, name in _calls_by_name(other)}
            given = by_name(call, positional(other))
            yield from (one.id for name, one in given.items() if name in called and isinstance(one, ast.Name))


def _calls_by_name(function: Scope) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(function.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node, node.func.id


def _variables(loss: ast.expr) -> Iterator[str]:
    """The variables of a plain loss; neither what it is divided by, nor what scales it."""
    match loss:
        case ast.BinOp(op=ast.Div()):
            yield from _variables(loss.left)
        case ast.BinOp():
            yield from _variables(loss.left)
            yield from _variables(loss.right)
        case ast.Call(func=ast.Attribute(attr="scale"), args=[value]):
            yield from _variables(value)
        case ast.Call(func=ast.Attribute(value=value)):
            yield from _variables(value)
        case _:
            yield from effects([loss]).reads


def handed_losses(module: TypedFile) -> Iterator[Handed]:
    """The calls of a file that hand a loss to a taker of the project."""
    for taker in module.project.takers:
        last = taker.function.rpartition(".")[2]
        if last == _CALLED and taker.is_whole and taker.parameter not in module.source.text:
            continue  # the argument is called like the parameter, at least
        calls = module.index.nodes[ast.Call] if last == _CALLED else module.index.calls.get(last, ())
        for call, scope in calls:
            assert isinstance(call, ast.Call)
            loss = _given(call, taker)
            if loss is not None and _is_call_of(module, call, scope, taker, loss):
                yield Handed(taker, call, loss, scope)


def _given(call: ast.Call, taker: Taker) -> ast.expr | None:
    named = [word.value for word in call.keywords if word.arg == taker.parameter]
    return named[0] if named else call.args[taker.position] if taker.position < len(call.args) else None


def _is_call_of(module: TypedFile, call: ast.Call, scope: Scope, taker: Taker, loss: ast.expr) -> bool:
    owner, _, last = taker.function.rpartition(".")
    # Any call may be one of an object that is called.
    if last == _CALLED and taker.is_whole and taker.parameter not in (dotted(loss) or ""):
        return False
    qualified = module.names.qualified(call.func, scope)
    if qualified is not None:
        return module.project.resolve(qualified) == taker.function
    receiver = call.func.value if isinstance(call.func, ast.Attribute) and last != _CALLED else call.func
    method = method_around(scope)
    if isinstance(receiver, ast.Name) and receiver.id == "self" and method is not None and method.owner:
        return module.project.method(f"{module.name}.{method.owner.qualname}", last) == taker.function
    kind = module.kind(receiver, scope)
    if isinstance(kind, Instance):
        return module.project.method(module.project.resolve(kind.cls), last) == taker.function
    # Of an object of unknown class, what it is called tells: `optim` is an `Optimizer`.
    pairs = product(_words(owner), _words(dotted(receiver) or ""))
    return isinstance(kind, Unknown) and any(a.startswith(b) or b.startswith(a) for a, b in pairs)


def _words(path: str) -> set[str]:
    """The words in the last part of a dotted name."""
    name = path.rpartition(".")[2]
    return {word.lower() for word in _WORD.findall(name) if len(word) >= _TELLING}
