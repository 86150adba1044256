"""Tensor shapes that change from batch to batch in compiled code.

## What it does

The rule reports code that gives tensors another shape in almost every batch, in programs that put tensors on
a CUDA or torchax device:

- In a function that collates a batch for a `DataLoader`: `pad_sequence`, and `max` or `min` of lengths, as in
  `max(len(x) for x in batch)`.
- Data collators of transformers that pad to the longest sequence, as in `DataCollatorWithPadding(tokenizer)`,
  and `tokenizer(..., padding=True)` in a function that collates a batch.
- In code whose gradients JAX computes: indexing with a boolean mask, and `nonzero`, `masked_select` and
  `unique`, if no other rule replaces them.
- `interpolate` to a size that `random` chooses.
- `DataLoader(data, batch_size)` if the code shows the length of `data`, and the last batch is smaller than
  the others.

## Why it matters on TPU

JAX compiles a function for the shapes of its arguments, and compiles it again for each new shape.
The results are right, but a compilation takes seconds, and often minutes for a large model, where the
computation takes milliseconds.
For example, a GRU was trained on a CPU for two epochs of 40 batches:

| length of a batch | lengths in each epoch | first epoch | second epoch |
| --- | ---: | ---: | ---: |
| that of its longest sequence | 20, 19 | 9.6 s | 4.8 s |
| padded to a multiple of 32, with a mask | 2 | 2.4 s | 0.2 s |

Plain PyTorch took 3 s for each epoch.
The losses were equal.

When the program runs, torchax-compat logs one warning for each function that JAX compiles again for a new
shape.
The warning has the file and line of the function, the argument, and both shapes.

## Fix safety

Fixes are only shown, never applied:

- `pad_to_multiple_of=64` changes the shapes of batches that other code may expect.
- `drop_last=True` skips the examples of the last batch.

## Without a fix

Pad to a few lengths, and ignore the padding in the loss:

```python
LENGTHS = (64, 128, 256, 512)


def collate(batch):
    sequences, targets = zip(*batch)
    longest = max(len(x) for x in sequences)
    length = next(n for n in LENGTHS if n >= longest)
    padded = torch.stack([F.pad(x, (0, length - len(x))) for x in sequences])
    mask = torch.stack([torch.arange(length) < len(x) for x in sequences])
    return padded, mask, torch.stack(targets)
```

Then each function is compiled once for each length in `LENGTHS`.

- Data collators of transformers have the argument `pad_to_multiple_of=64`, and mark the padding in
  `attention_mask` and in the labels.
- Replace `loss[mask].mean()` with `torch.where(mask, loss, 0).sum() / mask.sum()`.
- For images of several sizes, choose the size once for many batches, or from a few sizes.
- For the last batch, pass `drop_last=True` to the `DataLoader`, if the program may skip a few examples.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.training import LOADERS
from tpulint.rules_api import Applicability, Context, Finding, FunctionNode, Rule, Severity, Static, Tensor

rule = Rule(
    "TPU405",
    "tensor shapes that change from batch to batch in compiled code",
    module=__name__,
    fix=Applicability.DISPLAY,
    severity=Severity.SLOW,
)

_PAD_SEQUENCE = frozenset({"torch.nn.utils.rnn.pad_sequence", "torch.nn.utils.rnn.pack_sequence"})
#: Data collators of transformers that pad each batch to its longest sequence.
_COLLATORS = frozenset(
    f"transformers.{name}"
    for name in (
        "DataCollatorWithPadding",
        "DataCollatorForSeq2Seq",
        "DataCollatorForTokenClassification",
        "DataCollatorForLanguageModeling",
    )
)
_CHOSEN_BY_DATA = frozenset({"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive"})
_REDUCTIONS = frozenset({"sum", "mean", "any", "all", "max", "amax", "min", "amin", "numel", "size"})
#: Functions of `random` and numpy that choose a number or an element.
_CHANCE = ("random.", "numpy.random.")
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_AGAIN = "JAX compiles the code again for each new shape"


@rule.on(ast.Call, named={"pad_sequence", "pack_sequence", "max", "min"})
def longest(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not ctx.program.serves_device or not _collates(ctx):
        return
    name = ctx.names.qualified(call.func) or ""
    if name in _PAD_SEQUENCE:
        message = "`pad_sequence` pads to the longest sequence of each batch"
    elif name in ("builtins.max", "builtins.min") and _measures(call) and not _is_rounded(call, ctx):
        message = f"`{name.removeprefix('builtins.')}` makes the length depend on each batch"
    else:
        return
    yield ctx.finding(call, f"{message}, and {_AGAIN}; pad to one of a few lengths")


@rule.on(ast.Call, named={name.rpartition(".")[2] for name in _COLLATORS})
def collator(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if not ctx.program.serves_device or ctx.names.qualified(call.func) not in _COLLATORS or None in given:
        return
    padding = given.get("padding")
    if "pad_to_multiple_of" in given or (isinstance(padding, ast.Constant) and padding.value == "max_length"):
        return
    code = f"{ctx.text(call)[:-1].rstrip().rstrip(',')}, pad_to_multiple_of=64)"
    fix = ctx.rewrite.fix(
        "pad to multiples of 64 with `pad_to_multiple_of=64`",
        ctx.rewrite.replace(call, code),
        applicability=Applicability.DISPLAY,
    )
    message = f"the collator pads to the longest sequence of each batch, and {_AGAIN}"
    yield ctx.finding(call, message, fix)


def _pads_to_longest(call: ast.Call) -> bool:
    """A quick check: whether a call says that it pads to the longest of its arguments."""
    given = {word.arg: word.value for word in call.keywords}
    padding = given.get("padding")
    is_longest = isinstance(padding, ast.Constant) and padding.value in (True, "longest")
    return is_longest and not {"pad_to_multiple_of", None} & {*given}


@rule.on(ast.Call, where=_pads_to_longest)
def tokenizer(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not ctx.program.serves_device or not _collates(ctx) or ctx.names.qualified(call.func) in _COLLATORS:
        return
    (padding,) = (word.value for word in call.keywords if word.arg == "padding")
    message = f"`padding={ctx.text(padding)}` pads to the longest sequence of each batch, and {_AGAIN}"
    yield ctx.finding(call, f'{message}; pass `padding="max_length"` or `pad_to_multiple_of`')


def _may_select(node: ast.Subscript) -> bool:
    return isinstance(node.ctx, ast.Load) and not isinstance(node.slice, ast.Tuple | ast.Slice | ast.Constant)


@rule.on(ast.Subscript, where=_may_select)
def selected(node: ast.Subscript, ctx: Context) -> Iterator[Finding]:
    if not ctx.program.asks_gradients:
        return
    if not _is_mask(node.slice, ctx) or not _is_differentiated(node, ctx):
        return
    if not _is_reduced(node, ctx):
        selection = ctx.text(node)
        message = f"the number of elements of `{selection}` changes from batch to batch, and {_AGAIN}"
        yield ctx.finding(
            node, f"{message}; keep all elements, and multiply by the mask or use `torch.where`"
        )


@rule.on(ast.Call, named=_CHOSEN_BY_DATA)
def chosen(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute):
        return
    operand = call.args[0] if (ctx.names.qualified(call.func) or "").startswith("torch.") else call.func.value
    kind = ctx.types.of(operand) if call.args or operand is call.func.value else None
    if not isinstance(kind, Tensor) or kind.is_host or not _is_differentiated(call, ctx):
        return
    message = f"the output shape of `{call.func.attr}` changes from batch to batch, and {_AGAIN}"
    yield ctx.finding(call, f"{message}; keep all elements, and pass the mask to later code")


@rule.on(ast.Call, named={"interpolate"})
def scaled(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not ctx.program.serves_device or ctx.names.qualified(call.func) != "torch.nn.functional.interpolate":
        return
    sizes = [word.value for word in call.keywords if word.arg in ("size", "scale_factor")] or call.args[1:2]
    if any(_is_by_chance(size, ctx, set()) for size in sizes):
        message = f"`interpolate` gives images another size in each batch, and {_AGAIN}"
        yield ctx.finding(call, f"{message}; choose from a few sizes")


@rule.on(ast.Call, named={"DataLoader"})
def last(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) not in LOADERS or not call.args or not ctx.program.serves_device:
        return
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    batch = given.get("batch_size", call.args[1] if len(call.args) > 1 else None)
    if batch is None or not {"drop_last", "batch_sampler", "sampler", None}.isdisjoint(given):
        return
    size, length = _number(batch, ctx), _length(call.args[0], ctx, set())
    if size is None or length is None or size < 2 or length % size in (0, length):
        return
    message = f"the last batch has {length % size} of the examples, and all others have {size}"
    fix = ctx.rewrite.fix(
        "leave the last batch out with `drop_last=True`",
        ctx.rewrite.add_argument(call, "drop_last=True"),
        applicability=Applicability.DISPLAY,
    )
    yield ctx.finding(call, f"{message}, so that JAX compiles the code once more for it", fix)


def _collates(ctx: Context) -> bool:
    """Whether the enclosing function makes a batch of examples for a `DataLoader`."""
    function = ctx.scope.function
    if function is None or not isinstance(function.node, FunctionNode):
        return False
    name = (
        function.owner.name if function.name == "__call__" and function.owner is not None else function.name
    )
    return "collate" in name.lower() or name in ctx.once(_collating)


def _collating(ctx: Context) -> frozenset[str]:
    """The names that the file passes as `collate_fn`."""
    words = (
        word for call, _ in ctx.calls("DataLoader") for word in call.keywords if word.arg == "collate_fn"
    )
    nodes = (node for word in words for node in ast.walk(word.value))
    return frozenset(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute)
    )


def _measures(call: ast.Call) -> bool:
    """Whether a call compares lengths of examples: `max(len(x) for x in batch)`, `max(map(len, batch))`."""
    if len(call.args) != 1:
        return False
    match call.args[0]:
        case ast.GeneratorExp(elt=made) | ast.ListComp(elt=made):
            return _is_length(made)
        case ast.Call(func=ast.Name(id="map"), args=[ast.Name(id="len"), *_]):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return "len" in name.lower() or "size" in name.lower()
    return False


def _is_rounded(call: ast.Call, ctx: Context) -> bool:
    """Whether the length is rounded, or compared with other lengths, before it is used."""
    statement = ctx.statement(call)
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and _is_stored(node)}
    for node in (inner for one in ctx.function_body for inner in ast.walk(one)):
        is_division = isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mod)
        inside = list(ast.walk(node)) if is_division or isinstance(node, ast.Compare) else []
        if call in inside or any(isinstance(one, ast.Name) and one.id in names for one in inside):
            return True
    return False


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _is_length(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="len")) | ast.Call(func=ast.Attribute(attr="size" | "numel")):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
    return False


def _is_differentiated(node: ast.expr, ctx: Context) -> bool:
    """Whether fixes compile this code with the gradients of a loss, and other rules do not report it."""
    if not ctx.program.asks_gradients:
        return False
    if ctx.trace.path is not None and ctx.trace.may_need_values:
        return True
    if ctx.scope.function is not None and ctx.trace.is_differentiable(ctx.scope.function):
        return True
    return id(ctx.statement(node)) in ctx.program.training_steps.computing


def _is_mask(index: ast.expr, ctx: Context) -> bool:
    """Whether an index is a mask on the device, a comparison, or a parameter that gets a mask here."""
    kind = ctx.types.of(index)
    if isinstance(kind, Tensor) and kind.is_mask:
        return not kind.is_host
    values = [index, *ctx.names.assigned_values(index)]
    if any(isinstance(value, ast.Compare) and isinstance(value.ops[0], _ORDERS) for value in values):
        return not (isinstance(kind, Tensor) and kind.is_host)
    if not ctx.names.is_parameter(index) or not isinstance(index, ast.Name):
        return False
    given = [at.types.of(value) for value, at in ctx.passed(index)]
    return any(isinstance(one, Tensor) and one.is_mask and not one.is_host for one in given)


def _is_reduced(node: ast.Subscript, ctx: Context) -> bool:
    """Whether only a reduction or the number of the selected elements is read, as other rules replace it."""
    for outer in ctx.ancestors(node):
        if isinstance(outer, ast.Attribute) and outer.attr in _REDUCTIONS:
            return True
        if isinstance(outer, ast.Call) and (ctx.names.qualified(outer.func) or "").rpartition(".")[2] in (
            _REDUCTIONS | {"len"}
        ):
            return True
        if not isinstance(outer, ast.BinOp | ast.UnaryOp | ast.Attribute | ast.Call):
            return False
    return False


def _is_by_chance(node: ast.expr, ctx: Context, seen: set[str]) -> bool:
    """Whether a value comes from `random` or `numpy.random`."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and (ctx.names.qualified(inner.func) or "").startswith(_CHANCE):
            return True
        if isinstance(inner, ast.Name) and inner.id not in seen:
            seen.add(inner.id)
            if any(_is_by_chance(value, ctx, seen) for value in ctx.names.assigned_values(inner)):
                return True
    return False


def _number(node: ast.expr, ctx: Context) -> int | None:
    kind = ctx.types.of(node)
    return kind.value if isinstance(kind, Static) and type(kind.value) is int else None


def _length(node: ast.expr, ctx: Context, seen: set[str]) -> int | None:
    """The length of a dataset that the code shows."""
    match node:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return None if any(isinstance(one, ast.Starred) for one in elements) else len(elements)
        case ast.ListComp(elt=_, generators=[ast.comprehension(iter=iterated, ifs=[])]):
            return _length(iterated, ctx, seen)
        case ast.Call(func=ast.Name(id="range"), args=[stop]):
            return _number(stop, ctx)
        case ast.Call(func=ast.Attribute(attr="randn" | "rand" | "zeros" | "ones"), args=[first, *_]):
            is_torch = (ctx.names.qualified(node.func) or "").startswith("torch.")
            return _number(first, ctx) if is_torch else None
        case ast.Call(args=[first, *_]) if ctx.names.qualified(node.func) == "torch.utils.data.TensorDataset":
            return _length(first, ctx, seen)
        case ast.Name(id=name) if name not in seen:
            seen.add(name)
            values = ctx.names.assigned_values(node)
            return _length(values[0], ctx, seen) if len(values) == 1 else None
    return None
