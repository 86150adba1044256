"""CUDA check that falls back to the CPU on a TPU host.

## What it does

Reports conditions that check for CUDA:

- `torch.cuda.is_available()`;
- `device.type == "cuda"` and `"cuda" in str(device)`;
- `tensor.is_cuda`;
- `torch.version.cuda`, `torch.backends.cuda.is_built()` and `torch.backends.cudnn.is_available()`, if they
  choose the device;
- comparisons of a device name that the program also passes to PyTorch: `args.device == "cuda"`,
  `config["device"].startswith("cuda")`.

tpulint does not report the following conditions, because they should be false on a TPU host:

- a condition that guards code that works only with CUDA, such as functions of `torch.cuda`, Triton kernels,
  `forward_cuda` of an extension, a package of CUDA kernels, or `DistributedDataParallel`;
- a condition that also asks for an optional package, as in `HAS_FLASH_ATTN and x.is_cuda`;
- a condition that chooses a package, or an execution provider of ONNX;
- a condition in a file that builds a C++ or CUDA extension;
- a condition that chooses between the backends `nccl` and `gloo`;
- a condition that guards only messages for the user, such as a report of the memory in use. An exception is
  the message that CUDA is missing: the rule reports a condition that guards this message;
- a condition that is passed as `pin_memory` or as the `map_location` of `torch.load`, or that is inserted
  into an f-string.

tpulint also does not report a comparison with a value that the program reads from a file. For example,
`config["device"] == "cuda"` is not reported if `config` comes from a JSON file. A fix would change only the
code, so the JSON file would still say `cuda`.

## Why it matters on TPU

On a TPU host, conditions that check for CUDA are false, without an error:

- `"cuda" if torch.cuda.is_available() else "cpu"` puts the whole program on the CPU of the host.
  The program then runs slowly but prints correct results, so the mistake is easy to miss.
- A check such as `assert torch.cuda.is_available()` stops the program.

## Fix safety

In a program that does not enter the torchax environment yet, the fix is unsafe: `"jax"` raises there until
the fix of TPU001 (`missing-torchax-environment`) is applied, too.

- In other programs, the fix is safe for an expression or assignment that selects a device name: the fix
  replaces this expression with the device `"jax"`.
  If a rank is inserted into the device name, as in `f"cuda:{rank}"`, the fix is unsafe: all ranks then use
  the same device `"jax"`.
- The fix is unsafe for all other conditions, because the code that the condition guards may call functions of
  `torch.cuda` that raise on TPU.
  The fix replaces `torch.cuda.is_available()` with `torch.accelerator.is_available()`, which is true under
  torchax and on a GPU.

If the file creates a `torch.device("jax")` at import time, the fix also adds `import torchax`.
Without `import torchax`, `torch.device("jax")` raises.

## Without a fix

- A condition that chooses the device, and also guards a function of `torch.cuda` that tpulint cannot replace,
  has no fix. The message names the line that chooses the device, and the function.
  Move the function into a check for CUDA of its own, and run tpulint again.
- Some conditions guard parts of the same work: one creates CUDA events, for example, and a later one reads
  them. If one of them has to stay, the others have no fix, either. The message names the line of the
  condition that has to stay.
- With `--keep-gpu`, a CPU device has no fix if the branch for CUDA not only chooses the device, but also
  moves tensors or modules.
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterator

from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule, Tensor, Unknown
from tpulint.rules_api.syntax import is_cuda_string, is_formatted_cuda

rule = Rule(
    "TPU103",
    "CUDA check that falls back to the CPU on a TPU host",
    module=__name__,
    fix=Applicability.SAFE,
    targets=EVERY_TARGET,
)

#: Other questions that are answered with no where torch was built without CUDA.
_OTHER_QUESTIONS = frozenset({"torch.backends.cuda.is_built", "torch.backends.cudnn.is_available"})
_SILENT = "is false on a TPU host, so the program silently stays on the CPU"


@rule.on(ast.Call, named={"is_available"})
def is_available(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.cuda.is_available":
        return
    message = f"`torch.cuda.is_available()` {_SILENT}"
    test: ast.expr = call
    outer = ctx.parent(call)
    negated = isinstance(outer, ast.UnaryOp) and isinstance(outer.op, ast.Not)
    if isinstance(outer, ast.UnaryOp) and negated:
        test, outer = outer, ctx.parent(outer)
    if isinstance(outer, ast.IfExp) and outer.test is test:
        if _is_location(outer, ctx) and ctx.devices.is_host_without_cuda(outer):
            return
        device = ctx.devices.jax_form(outer)
        if device is not None:
            indexed = any(is_formatted_cuda(part) for part in ast.walk(outer))
            applicability = Applicability.UNSAFE if indexed else Applicability.SAFE
            yield ctx.finding(
                outer, message, _chosen(ctx.rewrite.replace(outer, device), device, outer, ctx, applicability)
            )
            return
        if _chooses_backend(outer):
            return
    if isinstance(outer, ast.Subscript) and outer.slice is call:
        device = _looked_up(outer.value, ctx)
        if device is not None:
            fix = _chosen(ctx.rewrite.replace(outer, device), device, outer, ctx, Applicability.UNSAFE)
            yield ctx.finding(outer, message, fix)
            return
    if outer is not None and ctx.devices.is_guarded_synchronize(outer):
        return
    if isinstance(outer, ast.If) and outer.test is test and _reads_to_host(outer, negated, ctx):
        return
    if isinstance(outer, ast.If) and outer.test is test and not negated:
        choice = _chosen_device(outer, ctx)
        if choice is not None:
            yield ctx.finding(call, message, choice)
            return
    is_kept = ctx.program.keeps_cuda and isinstance(outer, ast.If) and outer.test is test
    if is_kept and isinstance(outer, ast.If) and (yield from _left_to_host(outer, negated, message, ctx)):
        return
    if _says_whether_to_pin(call, outer) or isinstance(outer, ast.FormattedValue):
        return
    reason: str | None = ""
    if _stops_program(outer, negated=negated):
        message = "`torch.cuda.is_available()` is false on a TPU host, so this check stops the program"
    else:
        reason = ctx.devices.why_no_fix(call)
    if reason is None:
        return
    if reason:
        yield ctx.finding(call, f"`torch.cuda.is_available()` is false on a TPU host{reason}")
        return
    name, available = ctx.text(call.func), ctx.program.target.available
    module, imports = name.removesuffix(".cuda.is_available"), _imports(ctx)
    if module != name and available.startswith("torch."):
        available, imports = f"{module}{available.removeprefix('torch')}", ()
    fix = None
    if imports is not None:
        title = f"replace `{ctx.text(call)}` with `{available}`, which is true on a TPU host"
        fix = ctx.rewrite.fix(
            title, ctx.rewrite.replace(call, available), *imports, applicability=Applicability.UNSAFE
        )
    yield ctx.finding(call, message, fix)


def _imports(ctx: Context) -> tuple[Change, ...] | None:
    """The imports for the check of the target."""
    target = ctx.program.target
    return ctx.rewrite.imports(*target.needed_for(target.available))


@rule.on(ast.Call, named={"is_available", "is_built"})
def other_question(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) in _OTHER_QUESTIONS:
        yield from _chooses_by_build(call, ctx)


@rule.on(ast.Attribute, named={"cuda"})
def built_for_cuda(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(node) != "torch.version.cuda":
        return
    match ctx.parent(node):
        case ast.Compare(ops=[ast.IsNot() | ast.NotEq()], comparators=[ast.Constant(value=None)]) as outer:
            yield from _chooses_by_build(outer, ctx)
        case ast.If() | ast.IfExp() | ast.BoolOp() | ast.UnaryOp():
            yield from _chooses_by_build(node, ctx)


def _chooses_by_build(node: ast.expr, ctx: Context) -> Iterator[Finding]:
    """A finding if the expression, which is false without CUDA, decides which device the program uses."""
    if ctx.devices.guard(node).device is None:
        return
    reason, imports = ctx.devices.why_no_fix(node), _imports(ctx)
    if reason is None:
        return
    text = ctx.text(node)
    if reason:
        yield ctx.finding(node, f"`{text}` is false on a TPU host{reason}")
        return
    fix = None
    if imports is not None:
        available = ctx.program.target.available
        title = f"replace `{text}` with `{available}`, which is true on a TPU host"
        fix = ctx.rewrite.fix(
            title, ctx.rewrite.replace(node, available), *imports, applicability=Applicability.UNSAFE
        )
    yield ctx.finding(node, f"`{text}` {_SILENT}", fix)


def _looked_up(choices: ast.expr, ctx: Context) -> str | None:
    """The torchax device for `("cpu", "cuda")[...]` or `{True: "cuda", False: "cpu"}[...]`."""
    match choices:
        case ast.Tuple(elts=[_, device]) | ast.List(elts=[_, device]):
            return ctx.devices.jax_form(device)
        case ast.Dict(keys=keys, values=values):
            named = zip(keys, values, strict=True)
            chosen = (value for key, value in named if isinstance(key, ast.Constant) and key.value is True)
            return next((ctx.devices.jax_form(value) for value in chosen), None)
    return None


def _left_to_host(node: ast.If, negated: bool, message: str, ctx: Context) -> Generator[Finding, None, bool]:
    """Findings for CPU devices of names to which the CUDA branch assigns CUDA; true if there are any.

    The CUDA branch stays unchanged.
    """
    cuda, other = (node.orelse, node.body) if negated else (node.body, node.orelse)
    chosen = dict(filter(None, (ctx.devices.assigned_device([one]) for one in cuda)))
    block, found = ctx.block(node), set[str]()
    for statement in other or reversed(block[: block.index(node)]):
        name, _ = ctx.devices.assigned_device([statement]) or ("", "")
        if name not in chosen or name in found or not isinstance(statement, ast.Assign):
            continue
        found.add(name)
        if "jax" in ctx.text(statement.value):
            continue
        if any(_moves(one) for one in cuda):
            reason = (
                "no automatic fix that keeps CUDA, because the branch for CUDA also moves a tensor or module"
            )
            yield ctx.finding(statement.value, f"{message}; {reason}")
        else:
            edit = ctx.rewrite.replace(statement.value, chosen[name])
            fix = _chosen(edit, chosen[name], statement.value, ctx, Applicability.UNSAFE)
            yield ctx.finding(statement.value, message, fix)
    return bool(found)


def _moves(statement: ast.stmt) -> bool:
    """Whether the statement calls `.to(...)` or `.cuda()`."""
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr in ("to", "cuda")
        for part in ast.walk(statement)
    )


def _chosen(
    edit: Change, device: str, choice: ast.expr, ctx: Context, applicability: Applicability
) -> Fix | None:
    """The fix that puts the torchax device in place of a choice, and imports torchax first if needed."""
    imports: tuple[Change, ...] | None = ()
    if ctx.devices.is_made_on_import(choice) or (
        ctx.program.is_import_time and device.startswith("torch.device(")
    ):
        imports = ctx.rewrite.imports("import torchax")
    if imports is None:
        return None
    title = f"replace the choice of the device with the torchax device `{device}`"
    return ctx.rewrite.fix(title, edit, *imports, applicability=applicability)


def _says_whether_to_pin(call: ast.expr, outer: ast.AST | None) -> bool:
    """Whether the result is passed as `pin_memory`, for which false is right on TPU."""
    if isinstance(outer, ast.Dict) and call in outer.values:
        key = outer.keys[outer.values.index(call)]
        return isinstance(key, ast.Constant) and key.value == "pin_memory"
    return isinstance(outer, ast.keyword) and outer.arg == "pin_memory"


def _is_location(node: ast.expr, ctx: Context) -> bool:
    """Whether the choice is the `map_location` of `torch.load`, for which the CPU is right."""
    outer = ctx.parent(node)
    call = ctx.parent(outer) if isinstance(outer, ast.keyword) and outer.arg == "map_location" else outer
    if not isinstance(call, ast.Call) or ctx.names.qualified(call.func) != "torch.load":
        return False
    return isinstance(outer, ast.keyword) or node in call.args[1:]


def _reads_to_host(node: ast.If, negated: bool, ctx: Context) -> bool:
    """Whether the branches differ only in `map_location`, which is the CPU without CUDA."""
    cuda, other = (node.orelse, node.body) if negated else (node.body, node.orelse)
    loads = [
        part
        for root in other
        for part in ast.walk(root)
        if isinstance(part, ast.Call) and ctx.names.qualified(part.func) == "torch.load"
    ]
    places = [word.value for load in loads for word in load.keywords if word.arg == "map_location"]
    is_host = bool(places) and all(ast.unparse(one) in ("'cpu'", "torch.device('cpu')") for one in places)
    inside = [part for root in cuda for part in ast.walk(root)]
    moves = (isinstance(part, ast.Attribute) and part.attr == "to" for part in inside)
    return is_host and not any(moves) and not any(ctx.devices.names_cuda(part) for part in inside)


def _chooses_backend(choice: ast.IfExp) -> bool:
    """Whether the choice is that of a backend (`"nccl"` with CUDA), which is right on TPU."""
    names = {part.value for part in (choice.body, choice.orelse) if isinstance(part, ast.Constant)}
    return "nccl" in names


def _cuda_named(node: ast.Compare) -> ast.expr | None:
    """The literal that names CUDA on a side of a comparison, or in a list there; None if there is none."""
    right = node.comparators[0]
    listed = right.elts if isinstance(right, ast.List | ast.Tuple | ast.Set) else []
    if any(isinstance(side, ast.Constant) and side.value == "jax" for side in listed):
        return None
    return next((side for side in (node.left, right, *listed) if is_cuda_string(side)), None)


@rule.on(ast.Compare, where=lambda node: _cuda_named(node) is not None)
def compared_with_cuda(node: ast.Compare, ctx: Context) -> Iterator[Finding]:
    literal = _cuda_named(node)
    if len(node.ops) != 1 or literal is None:
        return
    right, operator = node.comparators[0], node.ops[0]
    other = right if literal is node.left else node.left
    if isinstance(operator, ast.Eq | ast.NotEq) or right is not other:
        asked = _is_name_of_device(other, ctx)
    else:
        asked = isinstance(operator, ast.In | ast.NotIn) and _is_device_text(other, ctx)
    outer = ctx.parent(node)
    if isinstance(outer, ast.IfExp) and isinstance(outer.body, ast.Constant) and outer.body.value == "jax":
        return  # it has come to torchax already
    if ctx.devices.is_text_of_file(other):
        return  # the file goes on saying `cuda`
    waits = outer is not None and ctx.devices.is_guarded_synchronize(outer)
    if asked and not waits:
        yield from _asked_for_cuda(node, literal, ctx)


@rule.on(ast.Call, named={"startswith"}, where=lambda call: bool(call.args) and is_cuda_string(call.args[0]))
def begins_with_cuda(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not _is_device_text(call.func.value, ctx):
        return
    if not ctx.devices.is_text_of_file(call.func.value):
        yield from _asked_for_cuda(call, call.args[0], ctx)


def _asked_for_cuda(node: ast.expr, literal: ast.expr, ctx: Context) -> Iterator[Finding]:
    reason = ctx.devices.why_no_fix(node)
    if reason is None:
        return
    fact = f"`{ctx.text(node)}` checks for a CUDA device, but a tensor on TPU has the device type `jax`"
    if reason:
        yield ctx.finding(node, f"{fact}{reason}")
        return
    fix = ctx.rewrite.fix(
        f"replace `{ctx.text(literal)}` with the torchax device type `{ctx.rewrite.quoted('jax', literal)}`",
        ctx.rewrite.replace(literal, ctx.rewrite.quoted("jax", literal)),
        applicability=Applicability.UNSAFE,
    )
    yield ctx.finding(node, fact, fix)


def _is_name_of_device(node: ast.expr, ctx: Context) -> bool:
    """Whether the expression is the type of a device, or a name that is passed to torch as one."""
    if isinstance(node, ast.Attribute) and node.attr == "type":
        return ctx.devices.holds_device(node.value)
    return ctx.devices.holds_device(node)


def _is_device_text(node: ast.expr, ctx: Context) -> bool:
    """Whether the expression is a device as a string."""
    if isinstance(node, ast.Call):
        text = ctx.names.qualified(node.func) == "builtins.str" and len(node.args) == 1
        return text and ctx.devices.holds_device(node.args[0])
    return _is_name_of_device(node, ctx)


@rule.on(ast.Attribute, named={"is_cuda"})
def is_cuda(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    outer = ctx.parent(node)
    if not isinstance(node.ctx, ast.Load) or (isinstance(outer, ast.Call) and outer.func is node):
        return  # a method of another class
    receiver = ctx.types.of(node.value)
    if isinstance(receiver, Tensor | Unknown) and ctx.names.qualified(node) is None:
        reason = ctx.devices.why_no_fix(node, chooses=False)
        if reason is None:
            return
        message = "`.is_cuda` is false for torchax tensors, so a tensor on TPU counts as a CPU tensor"
        if reason:
            yield ctx.finding(node, f"{message}{reason}")
            return
        comparison = f'{ctx.text(node.value)}.device.type == "jax"'
        edit = ctx.rewrite.replace(node, f"({comparison})" if _binds_tighter(node, ctx) else comparison)
        title = 'replace `.is_cuda` with `.device.type == "jax"`'
        fix = ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)
        yield ctx.finding(node, message, fix)


def _stops_program(outer: ast.AST | None, *, negated: bool) -> bool:
    """Whether the condition is an assertion, or that of a branch that raises without CUDA."""
    if isinstance(outer, ast.Assert):
        return True
    return isinstance(outer, ast.If) and negated and isinstance(outer.body[-1], ast.Raise)


def _binds_tighter(node: ast.expr, ctx: Context) -> bool:
    outer = ctx.parent(node)
    return isinstance(outer, ast.UnaryOp | ast.BinOp | ast.Compare | ast.Attribute | ast.Await)


def _chosen_device(node: ast.If, ctx: Context) -> Fix | None:
    """The fix that turns `if available: d = cuda / else: d = cpu` into one assignment; else None.

    The same for `d = cpu` before an `if` without `else`.
    """
    chosen = ctx.devices.assigned_device(node.body)
    if chosen is None:
        return None
    name, device = chosen
    first: ast.stmt = node
    other = node.orelse
    if not other:
        block = ctx.block(node)
        position = block.index(node)
        other = block[position - 1 : position] if position else []
        first = other[0] if other else node
    fallback = ctx.devices.assigned_device(other)
    if fallback is None or fallback[0] != name:
        return None
    code = f"{name} = {device}"
    edit = ctx.rewrite.replace(node, code) if first is node else ctx.rewrite.replace_run(first, 2, code)
    return _chosen(edit, device, node.test, ctx, Applicability.SAFE)
