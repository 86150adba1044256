"""Operation whose output shape depends on the data, in traced code.

## What it does

Reports the following operations in traced code.
Traced code is code that JAX traces to compile it, such as a model's `forward`.

- `nonzero`, `argwhere`, and `torch.where` with only a condition
- `unique` and `unique_consecutive`
- `masked_select`
- `bincount`
- `torch.combinations`
- `one_hot` without a number of classes
- `repeat_interleave` with a tensor of repeats and without `output_size`
- the function `torch.repeat_interleave` with `output_size`.
  On torchax, only the tensor method `x.repeat_interleave` accepts `output_size`.
  The function `torch.repeat_interleave` raises `TypeError: repeat_interleave() got an unexpected keyword
  argument 'output_size'`.

`count_nonzero`, `torch.where` with three arguments and `one_hot(x, 10)` have fixed output shapes and are not
reported.

## Why it matters on TPU

XLA compiles for fixed shapes.
In jitted code, an operation whose output shape depends on the data raises
`jax.errors.ConcretizationTypeError: Abstract tracer value encountered where concrete value is expected`.
The error message also has a hint, such as `The size argument of jnp.nonzero must be statically specified`.

## Fix safety

The following fixes are safe:

- `x[torch.where(mask)] = 0` becomes `x[mask] = 0`.
- `torch.masked_select(x, mask).sum()` becomes `torch.where(mask, x, 0).sum()`.
- `torch.combinations(x)`, which returns pairs of elements, becomes `x[...]` with an index from
  `torch.triu_indices`.
- `torch.repeat_interleave` with `output_size` becomes a call of the tensor method.

The following fixes are unsafe:

- The number of true elements, such as `len(torch.nonzero(mask))`, becomes `torch.count_nonzero`.
  The result of the fixed code is a zero-dimensional tensor instead of an integer.
  tpulint offers this fix only if the program uses the integer in arithmetic with tensors.
- The number of distinct values, such as `len(torch.unique(x))`, becomes code that sorts the elements and
  counts the positions at which two neighboring elements differ. The result of the fixed code is a
  zero-dimensional tensor instead of an integer. tpulint offers this fix only if the program uses the integer
  in arithmetic with tensors. The fixed code gives a wrong number for an empty tensor and for a tensor with
  infinities.
- The index of the first true element, `torch.nonzero(mask)[0]`, becomes `torch.argmax`.
  The fixed code is wrong unless the mask has one dimension.
  If the mask has no true element, the original raises, but the fixed code returns 0.
- `x[mask.nonzero().flatten()] = 0` becomes `x[mask] = 0`.
  The fixed code is wrong or raises unless the mask has one dimension.
- `bincount` with `minlength` becomes an `index_add` into `minlength` bins. If an element of the input is
  `minlength` or larger, the original returns more than `minlength` bins, but the fixed code has no bin for
  this element.

## Without a fix

- Keep all elements of the tensor and pass the mask to later code.
- In a mixture of experts, `for expert in mask.nonzero()` loops over the experts that have tokens.
  Instead, loop over all experts, and pass all tokens to each expert. Use `torch.where` or a weight of zero to
  ignore the results for tokens that belong to other experts.
- For `repeat_interleave`, call the tensor method with the length of the result as `output_size`. For
  `one_hot`, pass the number of classes.
- If you know an upper bound of the size, call `jnp.nonzero(x, size=bound)` or `jnp.unique(x, size=bound)`
  through `torchax.interop.call_jax`.
  `jnp.nonzero` and `jnp.unique` pad the result to the size `bound`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule, Span, Static, Tensor, Unknown
from tpulint.rules_api.syntax import loads

rule = Rule(
    "TPU403",
    "operation whose output shape depends on the data, in traced code",
    module=__name__,
    former=("data-dependent-result",),
    fix=Applicability.SAFE,
)

#: Functions of torch that are also methods of tensors.
_BOTH = frozenset(
    {"nonzero", "argwhere", "unique", "unique_consecutive", "masked_select", "bincount", "repeat_interleave"}
)
#: Functions only.
_FUNCTIONS = frozenset({"where", "combinations", "one_hot"})
#: What makes one dimension of the column of places that `nonzero` gives for a mask of one dimension.
_FLATTENED = ("squeeze", "flatten", "view", "reshape")


@rule.on(ast.Call, named=_BOTH | _FUNCTIONS, traced=True, handled="output shapes that depend on values")
def operation(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    found = _operation(call, ctx)
    if found is not None:
        name, operands = found
        message = f"the output shape of `{name}` depends on tensor values, but XLA needs fixed shapes"
        yield ctx.finding(call, message, _fix(call, operands, ctx))


@rule.on(ast.Call, named={"repeat_interleave"}, traced=True)
def known_length(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    keywords = {keyword.arg for keyword in call.keywords}
    if "output_size" not in keywords or ctx.names.qualified(call.func) != "torch.repeat_interleave":
        return
    fix = None
    if len(call.args) > 1 or "repeats" in keywords:
        first = call.args[0]
        rest = Span(ctx.span(first).end, ctx.span(call).end)
        arguments = ctx.source.text[rest.start : rest.end].lstrip(", \r\n\t")
        if not arguments.startswith(")"):  # of parentheses around the tensor
            edit = ctx.rewrite.replace(call, f"{ctx.rewrite.operand(first)}.repeat_interleave({arguments}")
            title = "call `repeat_interleave` as a tensor method, which accepts `output_size`"
            fix = ctx.rewrite.fix(title, edit)
    message = "`torch.repeat_interleave` does not accept `output_size` on torchax and raises `TypeError`"
    yield ctx.finding(call, message, fix)


def _operation(call: ast.Call, ctx: Context) -> tuple[str, list[ast.expr]] | None:
    """Whether the output shape of the call depends on a tensor's values; its name and operands, or None."""
    qualified = ctx.names.qualified(call.func)
    if qualified is not None:
        library, _, last = qualified.rpartition(".")
        if library not in ("torch", "torch.functional", "torch.nn.functional") or not call.args:
            return None
        name, operands = qualified, call.args
    elif isinstance(call.func, ast.Attribute) and call.func.attr in _BOTH:
        last = call.func.attr
        name, operands = f".{last}()", [call.func.value, *call.args]
        # Among what traced code handles, nothing but a tensor has these methods.
        if not isinstance(ctx.types.of(operands[0]), Tensor | Unknown):
            return None
    else:
        return None
    kind = ctx.types.of(operands[0])
    if (isinstance(kind, Tensor) and kind.is_host) or not _depends_on_values(last, operands, call, ctx):
        return None
    return name, operands


def _depends_on_values(name: str, operands: list[ast.expr], call: ast.Call, ctx: Context) -> bool:
    """Whether the output shape depends on values for these arguments."""
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    second = operands[1] if len(operands) > 1 else None
    match name:
        case "where":
            return second is None and not keywords
        case "one_hot":
            classes = second or keywords.get("num_classes")
            return classes is None or ast.unparse(classes) == "-1"
        case "repeat_interleave":
            repeats = second or keywords.get("repeats", operands[0])
            given = repeats is operands[0] or ctx.types.of(repeats).is_traced
            return given and "output_size" not in keywords
        case _:
            return True


def _fix(call: ast.Call, operands: list[ast.expr], ctx: Context) -> Fix | None:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    match name:
        case "nonzero" | "argwhere" | "where":
            return _places(call, operands[0], ctx)
        case "unique" | "unique_consecutive" if len(operands) == 1 and _plain(call):
            return _different_values(call, operands[0], name == "unique", ctx)
        case "masked_select" if len(operands) == 2:
            return _selected_sum(call, operands, ctx)
        case "bincount":
            return _bins(call, operands, ctx)
        case "combinations":
            return _pairs(call, operands, ctx)
        case _:
            return None


# places where a mask is true


def _places(call: ast.Call, mask: ast.expr, ctx: Context) -> Fix | None:
    as_tuple = any(
        keyword.arg == "as_tuple" and ast.unparse(keyword.value) == "True" for keyword in call.keywords
    )
    if as_tuple or (isinstance(call.func, ast.Attribute) and call.func.attr == "where"):
        places = _zeroth(call, ctx)
        return _index(call, mask, Applicability.SAFE, ctx) if places is None else _of_one(places, mask, ctx)
    first = _zeroth(call, ctx)
    if first is not None:
        number = _zeroth(first, ctx)
        as_row = number is None and not isinstance(first.slice, ast.Tuple)
        return _first(number or first, mask, ctx, as_row=as_row)
    column = _flattened(call, ctx)
    return _count(call, mask, ctx) if column is None else _of_one(column, mask, ctx)


def _of_one(places: ast.expr, mask: ast.expr, ctx: Context) -> Fix | None:
    """The fix for the indices of the true elements of a one-dimensional mask."""
    first = _zeroth(places, ctx)
    if first is not None:
        return _first(first, mask, ctx)
    return _count(places, mask, ctx) or _index(places, mask, Applicability.UNSAFE, ctx)


def _zeroth(node: ast.expr, ctx: Context) -> ast.Subscript | None:
    """The subscript `node[0]` or `node[0, 0]` around a node; None if there is none."""
    outer = ctx.parent(node)
    taken = isinstance(outer, ast.Subscript) and outer.value is node and isinstance(outer.ctx, ast.Load)
    if not taken or not isinstance(outer, ast.Subscript):
        return None
    return outer if ast.unparse(outer.slice).strip("()") in ("0", "0, 0") else None


def _flattened(call: ast.expr, ctx: Context) -> ast.expr | None:
    """The expression around `nonzero()` that flattens its column of indices; None if there is none."""
    outer = ctx.parent(call)
    if isinstance(outer, ast.Subscript) and outer.value is call:
        return outer if ast.unparse(outer.slice).strip("()") == ":, 0" else None
    method = ctx.parent(outer) if isinstance(outer, ast.Attribute) and outer.attr in _FLATTENED else None
    return method if isinstance(method, ast.Call) and method.func is outer else None


def _count(places: ast.expr, mask: ast.expr, ctx: Context) -> Fix | None:
    length = ctx.types.length_around(places)
    imports = ctx.rewrite.imports("import torch")
    if length is None or imports is None or not ctx.types.serves_as_tensor(length):
        return None
    edit = ctx.rewrite.replace(length, f"torch.count_nonzero({ctx.text(mask)})")
    title = "count the true elements with `torch.count_nonzero` instead of listing them"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)


def _first(whole: ast.expr, mask: ast.expr, ctx: Context, *, as_row: bool = False) -> Fix | None:
    edit = ctx.rewrite.replace(
        whole, f"{ctx.rewrite.operand(mask)}.int().argmax(){'[None]' if as_row else ''}"
    )
    if not _is_bool(mask, ctx):
        return None
    title = "find the first true element with `argmax` instead of listing all true elements"
    return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)


def _index(places: ast.expr, mask: ast.expr, applicability: Applicability, ctx: Context) -> Fix | None:
    """The fix for indices that are only used to write scalars."""
    kind = ctx.types.of(mask)
    if not _is_bool(mask, ctx) or (isinstance(kind, Tensor) and kind.scalar):
        return None
    outer = ctx.parent(places)
    title = "index with the boolean mask instead of with the indices of its true elements"
    match outer:
        case ast.Subscript() if _writes_number(outer, places, ctx):
            return ctx.rewrite.fix(
                title, ctx.rewrite.replace(places, ctx.text(mask)), applicability=applicability
            )
        case ast.Assign(targets=[ast.Name(id=name)]) if ctx.scope.function is not None:
            function = ctx.scope.function
            uses = list(loads(function.node, name))
            if len(function.bindings.get(name, ())) != 1 or not uses:
                return None
            if all(_writes_number(ctx.parent(use), use, ctx) for use in uses):
                return ctx.rewrite.fix(
                    title, ctx.rewrite.replace(places, ctx.text(mask)), applicability=applicability
                )
    return None


def _writes_number(node: ast.AST | None, index: ast.expr, ctx: Context) -> bool:
    """Whether the node is the target of `x[index] = scalar`."""
    if not isinstance(node, ast.Subscript) or node.slice is not index:
        return False
    outer = ctx.parent(node)
    return (
        isinstance(outer, ast.Assign)
        and node in outer.targets
        and isinstance(ctx.types.of(outer.value), Static)
    )


def _is_bool(mask: ast.expr, ctx: Context) -> bool:
    """Whether the mask has boolean elements.

    It is known to be a tensor, since its true elements are asked for.
    """
    kind = ctx.types.of(mask)
    return (isinstance(kind, Tensor) and kind.is_bool) or isinstance(mask, ast.Compare)


# other operations


def _plain(call: ast.Call) -> bool:
    """Whether `unique` returns only the distinct values of all elements."""
    return all(
        keyword.arg == "sorted" or ast.unparse(keyword.value) in ("None", "False")
        for keyword in call.keywords
    )


def _different_values(call: ast.Call, values: ast.expr, is_sorted: bool, ctx: Context) -> Fix | None:
    length = ctx.types.length_around(call)
    imports = ctx.rewrite.imports("import torch")
    if length is None or imports is None or not ctx.types.serves_as_tensor(length):
        return None
    row = f"{ctx.rewrite.operand(values)}.flatten()"
    row = f"{row}.sort().values" if is_sorted else row
    edit = ctx.rewrite.replace(length, ctx.rewrite.grouped(length, f"1 + torch.count_nonzero({row}.diff())"))
    title = "count the distinct values with `diff` and `torch.count_nonzero` instead of listing them"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)


def _selected_sum(call: ast.Call, operands: list[ast.expr], ctx: Context) -> Fix | None:
    method = ctx.parent(call)
    whole = ctx.parent(method) if isinstance(method, ast.Attribute) and method.attr == "sum" else None
    imports = ctx.rewrite.imports("import torch")
    if not isinstance(whole, ast.Call) or whole.args or whole.keywords or imports is None:
        return None
    values, mask = map(ctx.text, operands)
    edit = ctx.rewrite.replace(whole, f"torch.where({mask}, {values}, 0).sum()")
    return ctx.rewrite.fix(
        "replace `masked_select` with `torch.where`, and sum over all elements", edit, *imports
    )


def _bins(call: ast.Call, operands: list[ast.expr], ctx: Context) -> Fix | None:
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    imports = ctx.rewrite.imports("import torch")
    bins = keywords.get("minlength")
    if imports is None or bins is None or len(operands) > 1 or len(keywords) > 1:
        return None
    if (
        not isinstance(ctx.types.of(bins), Static)
        or isinstance(bins, ast.BoolOp | ast.IfExp)
        or not isinstance(operands[0], ast.Name | ast.Attribute)
    ):
        return None
    values = ctx.text(operands[0])
    zeros = f"torch.zeros({ctx.text(bins)}, dtype=torch.int64, device={values}.device)"
    edit = ctx.rewrite.replace(
        call, f"{zeros}.index_add(0, {values}, torch.ones_like({values}, dtype=torch.int64))"
    )
    title = "replace `torch.bincount` with `index_add` into a fixed number of bins"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)


def _pairs(call: ast.Call, operands: list[ast.expr], ctx: Context) -> Fix | None:
    imports = ctx.rewrite.imports("import torch")
    in_pairs = not call.keywords and [ast.unparse(operand) for operand in operands[1:]] in ([], ["2"])
    if imports is None or not in_pairs or not isinstance(operands[0], ast.Name):
        return None
    values = operands[0].id
    size = f"len({values})"
    edit = ctx.rewrite.replace(
        call, f"{values}[torch.triu_indices({size}, {size}, 1, device={values}.device).T]"
    )
    return ctx.rewrite.fix(
        "index with `torch.triu_indices` instead of calling `torch.combinations`", edit, *imports
    )
