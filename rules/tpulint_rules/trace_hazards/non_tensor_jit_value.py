"""Non-tensor argument or result of a jitted function.

## What it does

The rule checks files that jit a function with `torchax.interop.jax_jit` or `torchax.compile`.
In such a file, the rule reports values that the jitted function cannot take or return:

- arguments that are strings;
- arguments `True` and `False`, if the function branches on the parameter that receives the argument;
- results that are strings, devices, dtypes or instances of a dataclass, also within tuples, lists and
  dictionaries.

If the program passes options to `jax_jit` or `torchax.compile`, arguments are not reported, because the
options may declare them static.
Dataclasses that are registered with JAX are not reported.

## Why it matters on TPU

Every argument and every result of a jitted function must be an array, or a dictionary, list or tuple of
arrays.

- A string argument raises `TypeError: Error interpreting argument to <function ...> as an abstract array. The
  problematic value is of type <class 'str'>`.
- JAX turns the argument `return_dict=False` into a tracer, so `if return_dict:` raises
  `ConcretizationTypeError`.
- A result that is not an array raises `TypeError: function ... traced for jit returned a value of type <class
  'str'> at output component [0], which is not a valid JAX type`.

## Fix safety

The fix is unsafe:

- The fix declares the argument as static.
  JAX then compiles the function once for each value of the static argument.
  JAX raises if a call passes a value that is not hashable, such as a list, as the static argument.
- The fix registers the dataclass with JAX.
  The fields of the dataclass must be tensors or `None`.

## Without a fix

If the function returns a device or a dtype, return only the tensors: the caller can read `x.device` and
`x.dtype` from the returned tensors.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tpulint.rules_api import (
    Applicability,
    Change,
    Context,
    Device,
    Finding,
    Fix,
    FunctionNode,
    Rule,
    Scope,
    Tensor,
)
from tpulint.rules_api.results import Jitted
from tpulint.rules_api.syntax import parameters

rule = Rule(
    "TPU308",
    "non-tensor argument or result of a jitted function",
    module=__name__,
    former=("plain-object-through-jit",),
    fix=Applicability.UNSAFE,
)

_JIT = "torchax.interop.jax_jit"
_COMPILE = "torchax.compile"
_ENTRIES = frozenset({_JIT, _COMPILE})
_DATA_CLASSES = frozenset({"dataclasses.dataclass"})
_REGISTERS = "register_dataclass"


@rule.on(ast.Call, named={"compile", "jax_jit"})
def called(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) not in _ENTRIES or not call.args:
        return
    jitted = ctx.trace.jitted_by(call)
    if jitted is not None:
        yield from _told(jitted, ctx)


@rule.on(ast.Module)
def decorated(_tree: ast.Module, ctx: Context) -> Iterator[Finding]:
    for function in ctx.names.functions:
        around = ctx.at(function.parent) if function.parent is not None else ctx
        for decorator in getattr(function.node, "decorator_list", ()):
            if around.names.qualified(decorator) in _ENTRIES:
                yield from _told(Jitted(decorator, function.name, function, 0, 0), around)


def _told(jitted: Jitted, ctx: Context) -> Iterator[Finding]:
    by = jitted.by
    if not isinstance(by, ast.Call) or (len(by.args) == 1 and not by.keywords):
        yield from _arguments(jitted, ctx)  # else options, which may name static ones
    inside = ctx.at(jitted.function)
    for value in _returned(jitted.function):
        for part in _parts(value):
            what = _no_array(part, inside)
            if what is not None:
                message = f"a jitted function can return only tensors, not {what}"
                fix = _registered(part, inside) if isinstance(part, ast.Call) else None
                yield inside.finding(part, message, fix)


# arguments


def _arguments(jitted: Jitted, ctx: Context) -> Iterator[Finding]:
    node = jitted.function.node
    assert isinstance(node, FunctionNode)
    names = [argument.arg for argument in parameters(node)][jitted.first :]
    tested = set(_tested(jitted.function))
    first: tuple[Context, ast.expr] | None = None
    numbers: set[int] = set()
    words: set[str] = set()
    for call, there in _calls(jitted, ctx):
        for number, argument in enumerate(call.args):
            parameter = names[number] if number < len(names) else ""
            if _is_plain(argument, parameter in tested):
                numbers.add(number + jitted.hidden)
                first = first or (there, argument)
        for word in call.keywords:
            if word.arg is not None and _is_plain(word.value, word.arg in tested):
                words.add(word.arg)
                first = first or (there, word.value)
    if first is not None:
        there, argument = first
        text = there.text(argument)
        what = f"`{text}` is not a tensor"
        message = f"{what}, so it must be a static argument of the jitted function `{jitted.name}`"
        yield there.finding(argument, message, _made_static(jitted, numbers, words, ctx))


def _calls(jitted: Jitted, ctx: Context) -> Iterable[tuple[ast.Call, Context]]:
    """The calls of a jitted function in this file."""
    found = ctx.names.lookup(jitted.name)
    if found is not None:
        return ctx.once(_called_by_name).get((jitted.name, id(found[0])), [])
    last = jitted.name.rpartition(".")[2]
    return [(call, there) for call, there in ctx.calls(last) if there.text(call.func) == jitted.name]


def _called_by_name(ctx: Context) -> dict[tuple[str, int], list[tuple[ast.Call, Context]]]:
    """The calls of plain names in this file, by name and by the scope that binds it."""
    calls: dict[tuple[str, int], list[tuple[ast.Call, Context]]] = {}
    for call, scope in ctx.names.all_calls():
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            found = ctx.at(scope).names.lookup(call.func.id)
            if found is not None:
                calls.setdefault((call.func.id, id(found[0])), []).append((call, ctx.at(scope)))
    return calls


def _is_plain(node: ast.expr, is_tested: bool) -> bool:
    """Whether the argument must be static (a string, or a Boolean that the function branches on)."""
    if not isinstance(node, ast.Constant):
        return False
    return isinstance(node.value, str) or (is_tested and isinstance(node.value, bool))


def _tested(function: Scope) -> Iterator[str]:
    """The names that the function branches on without a comparison, as in `if flag:`."""
    for node in ast.walk(function.node):
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            test = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
            if isinstance(test, ast.Name):
                yield test.id


def _tuple(items: Iterable[str]) -> str:
    whole = ", ".join(items)
    return f"({whole})" if ", " in whole else f"({whole},)"


def _made_static(jitted: Jitted, numbers: set[int], words: set[str], ctx: Context) -> Fix | None:
    by = jitted.by
    options = []
    if numbers:
        options.append(f'"static_argnums": {_tuple(map(str, sorted(numbers)))}')
    if words:
        quoted = [f'"{word}"' for word in sorted(words)]
        options.append(f'"static_argnames": {_tuple(quoted)}')
    text = f"{{{', '.join(options)}}}"
    edits: tuple[Change, ...]
    if not isinstance(by, ast.Call):
        imports = ctx.rewrite.imports("import functools", "import torchax")
        code = f"functools.partial({_JIT}, kwargs_for_jax_jit={text})"
        edits = (ctx.rewrite.replace(by, code), *imports) if imports is not None else ()
    elif jitted.hidden:
        imports = ctx.rewrite.imports("import torchax")
        code = f"torchax.CompileOptions(jax_jit_kwargs={text})"
        edits = (ctx.rewrite.add_argument(by, code, 1), *imports) if imports is not None else ()
    else:
        imports = ctx.rewrite.imports("import torchax")
        code = f"{_JIT}({ctx.text(by.args[0])}, kwargs_for_jax_jit={text})"
        edits = (ctx.rewrite.replace(by, code), *imports) if imports is not None else ()
    if not edits:
        return None
    names = [name for name, given in (("static_argnums", numbers), ("static_argnames", words)) if given]
    listed = " and ".join(f"`{name}`" for name in names)
    title = f"mark the non-tensor arguments of `{jitted.name}` as static with {listed}"
    return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)


# results


def _returned(function: Scope) -> Iterator[ast.expr]:
    node = function.node
    if isinstance(node, ast.Lambda):
        yield node.body
        return
    waiting: list[ast.AST] = list(getattr(node, "body", ()))
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, ast.Return) and inner.value is not None:
            yield inner.value
        elif not isinstance(inner, FunctionNode | ast.ClassDef):
            waiting += [child for child in ast.iter_child_nodes(inner) if not isinstance(child, ast.expr)]


def _parts(value: ast.expr) -> Iterator[ast.expr]:
    """The values that make up a result: JAX looks into tuples, lists and dictionaries."""
    match value:
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Dict(values=items):
            for item in items:
                yield from _parts(item)
        case ast.IfExp(body=one, orelse=other):
            yield from _parts(one)
            yield from _parts(other)
        case _:
            yield value


def _no_array(part: ast.expr, ctx: Context) -> str | None:
    """The value, in words, if a jitted function cannot return it; None if it can."""
    if isinstance(part, ast.Constant) and isinstance(part.value, str):
        return f"the string `{ctx.text(part)}`"
    if (
        isinstance(part, ast.Attribute)
        and isinstance(ctx.types.of(part.value), Tensor)
        and part.attr == "dtype"
    ):
        return f"the dtype `{ctx.text(part)}`"
    if isinstance(ctx.types.of(part), Device):
        return f"the device `{ctx.text(part)}`"
    if isinstance(part, ast.Call) and _data_class(part, ctx) is not None:
        return f"the dataclass `{ctx.text(part.func)}`, which is not registered with JAX"
    return None


def _data_class(call: ast.Call, ctx: Context) -> ast.ClassDef | None:
    """The dataclass of this file that the call creates, if it is not registered with JAX; None otherwise."""
    if not isinstance(call.func, ast.Name) or any(ctx.calls(_REGISTERS)):
        return None
    found = ctx.names.lookup(call.func.id)
    node = found[1][0].node if found is not None and len(found[1]) == 1 else None
    if not isinstance(node, ast.ClassDef) or found is None:
        return None
    around = ctx.at(found[0])
    names = [around.names.qualified(_callee(decorator)) for decorator in node.decorator_list]
    plain = len(names) == 1 and names[0] in _DATA_CLASSES
    return node if plain else None


def _callee(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _registered(call: ast.Call, ctx: Context) -> Fix | None:
    node, imports = _data_class(call, ctx), ctx.rewrite.imports("import jax")
    if node is None or imports is None:
        return None
    line = ctx.rewrite.add_decorator(node, f"jax.tree_util.{_REGISTERS}", outermost=True)
    title = f"register the dataclass `{node.name}` with `jax.tree_util.{_REGISTERS}`"
    return ctx.rewrite.fix(title, line, *imports, applicability=Applicability.UNSAFE)
