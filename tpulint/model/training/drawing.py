"""Of which generators statements draw random numbers: those of one are to be drawn in order."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from tpulint.model.names.scopes import Scope
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.training.called import own_function
from tpulint.model.training.learned import Learned
from tpulint.model.values.kinds import Instance
from tpulint.model.values.typed_file import TypedFile

_TORCH = frozenset(
    f"torch.{name}"
    for name in (
        *("bernoulli", "multinomial", "normal", "poisson", "rand", "rand_like", "randint", "randint_like"),
        *("randn", "randn_like", "randperm", "dropout", "alpha_dropout", "feature_dropout", "rrelu"),
    )
) | frozenset(
    f"torch.nn.functional.{name}"
    for name in (
        *("alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"),
        *("gumbel_softmax", "rrelu"),
    )
)
_FILLING = frozenset({"bernoulli_", "exponential_", "normal_", "random_", "uniform_", "rsample"})
#: Modules that draw, or do so where they are told to.
_MODULES = frozenset(
    f"torch.nn.{name}"
    for name in (
        *("AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout", "RReLU"),
        *("GRU", "LSTM", "MultiheadAttention", "RNN"),
        *("Transformer", "TransformerDecoderLayer", "TransformerEncoderLayer"),
    )
)
_LIBRARIES = ("numpy.random", "random")


def draws(module: TypedFile, statements: Iterable[ast.AST], scope: Scope) -> set[str]:
    """The generators that statements draw from, and the functions of this file that they call."""
    found, seen = set[str](), set[int]()
    waiting = [(statement, scope) for statement in statements]
    while waiting:
        outer, place = waiting.pop()
        for node in ast.walk(outer):
            if not isinstance(node, ast.Call):
                continue
            found |= _drawn(module, node, place)
            classes, functions = _called(module, node, place)
            if any(_is_drawing(module, cls) for cls in classes):
                found.add("torch")
            for called in functions:
                if id(called) not in seen:
                    seen.add(id(called))
                    waiting.append((called.node, called))
    return found


def may_draw(module: TypedFile, learned: Learned, statements: Sequence[ast.AST], scope: Scope) -> set[str]:
    """The same, if modules of unknown classes, and of those of other files, draw as well."""
    calls = (node for outer in statements for node in ast.walk(outer) if isinstance(node, ast.Call))
    is_open = any(
        learned.is_module(call.func, scope) and _is_elsewhere(module, call, scope) for call in calls
    )
    return draws(module, statements, scope) | ({"torch"} if is_open else set())


def _is_elsewhere(module: TypedFile, call: ast.Call, scope: Scope) -> bool:
    """Whether it is not known what a module computes, or another file says it."""
    classes, functions = _called(module, call, scope)
    return not functions and not any(cls.startswith("torch.") for cls in classes)


def _drawn(module: ParsedFile, call: ast.Call, scope: Scope) -> set[str]:
    if any(word.arg == "generator" for word in call.keywords):
        return set()
    name = module.names.qualified(call.func, scope) or ""
    if name in _TORCH or (isinstance(call.func, ast.Attribute) and call.func.attr in _FILLING):
        return {"torch"}
    return {library for library in _LIBRARIES if name.startswith(f"{library}.")}


def _called(module: TypedFile, call: ast.Call, scope: Scope) -> tuple[list[str], list[Scope]]:
    """The classes of the modules that a call may run, and the functions of this file."""
    own = own_function(module, call.func, scope)
    if own is not None:
        return [], [own]
    held: ast.expr = call.func
    method = "forward"
    classes = list(_classes(module, held, scope))
    if not classes and isinstance(held, ast.Attribute):
        method, held = held.attr, held.value
        classes = list(_classes(module, held, scope))
    names = (module.project.method(cls, method) for cls in classes)
    return classes, [module.functions[name] for name in names if name in module.functions]


def _classes(module: TypedFile, value: ast.expr, scope: Scope) -> Iterator[str]:
    """Of which classes an object may be, be it one that callers hand over."""
    kind = module.kind(value, scope)
    if isinstance(kind, Instance):
        yield kind.cls
    elif isinstance(value, ast.Name):
        for handed, place in module.handed(value.id, scope):
            kind = module.kind(handed, place)
            if isinstance(kind, Instance):
                yield kind.cls


def _is_drawing(module: ProjectFile, cls: str) -> bool:
    """Whether a module has others that draw, at any depth."""
    waiting, seen = [cls], set[str]()
    while waiting:
        one = waiting.pop()
        if one in _MODULES:
            return True
        if one not in seen:
            seen.add(one)
            waiting += (made for each in module.project.mro(one) for made in _parts(module, each))
    return False


def _parts(module: ProjectFile, cls: str) -> Iterable[str]:
    """The classes of the modules that those of a class have for attributes."""
    facts = module.project.class_(cls)
    parts = facts.modules.values() if facts is not None else ()
    return (module.project.resolve(made) for part in parts for made in part)
