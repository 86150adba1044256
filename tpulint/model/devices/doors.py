"""Places where torch takes a device, and the names whose values end up in one."""

from __future__ import annotations

import ast
import re

from tpulint.knowledge.tracing import is_device_word
from tpulint.model.devices.given import made
from tpulint.model.devices.literals import is_cuda_string, is_formatted_cuda
from tpulint.model.devices.places import last_name, places
from tpulint.model.devices.targets import targets
from tpulint.model.names.references import default_of
from tpulint.model.names.scopes import Scope
from tpulint.model.project.device_flow import ASKED, GIVEN, LITERAL, SINK, TEXT, UNKNOWN
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.values.kinds import Device, Instance, Tensor, Unknown
from tpulint.model.values.typed_file import TypedFile

_DEVICE = re.compile(r"(cuda|cpu|mps|xpu|npu)(:\d+)?\Z")
_TAKES_DEVICE_FIRST = frozenset({"torch.device", "torch.set_default_device"})


def takes_device(module: TypedFile, call: ast.Call, slot: ast.expr, scope: Scope) -> bool:
    """Whether the argument is one that torch takes as a device."""
    first = bool(call.args) and call.args[0] is slot
    keyword = next((keyword.arg for keyword in call.keywords if keyword.value is slot), None)
    qualified = module.names.qualified(made(module, call, scope), scope)
    if qualified in _TAKES_DEVICE_FIRST:
        return first or keyword in ("type", "device")
    if qualified is not None:
        # A scaler for `jax` is enabled, and fails then; one for `cuda` disables itself.
        scaler = qualified.endswith(".GradScaler")
        return keyword == "device" and qualified.startswith("torch.") and not scaler
    if not isinstance(call.func, ast.Attribute):
        return False
    receiver = module.kind(call.func.value, scope)
    owned = isinstance(receiver, Tensor) or (
        isinstance(receiver, Instance)
        and (receiver.cls.startswith("torch.nn.") or module.project.is_module_class(receiver.cls))
    )
    if call.func.attr == "to":
        return (first or keyword == "device") and (owned or isinstance(receiver, Unknown))
    return (
        keyword == "device" and isinstance(receiver, Tensor | Unknown) and call.func.attr.startswith("new_")
    )


def becomes_device(module: ProjectFile, node: ast.expr, scope: Scope, *, doors: bool = False) -> bool:
    """Whether the value is passed to torch as a device anywhere in the project.

    With `doors`, an expression that is such an argument itself counts as well.
    """
    found = targets(module, node, scope)
    return any(module.project.is_device(target) or (doors and target == SINK) for target in found)


def made_on_import(module: ParsedFile, node: ast.expr, scope: Scope) -> bool:
    """Whether the expression is part of a `torch.device(...)` that runs when the file is imported.

    torchax, without which `torch.device("jax")` raises, may not be imported by then.
    """
    inner: ast.AST | None = node
    while isinstance(inner, ast.expr) and scope.function is None:
        if isinstance(inner, ast.Call) and module.names.qualified(inner.func, scope) == "torch.device":
            return True
        inner = module.parent(inner)
    return False


def holds_device(module: TypedFile, node: ast.expr, scope: Scope) -> bool:
    """Whether the expression is a device, or a name that is passed to torch as one."""
    if any(module.project.is_device(place) for place in places(module, node, scope)):
        return True
    return isinstance(module.kind(node, scope), Device) and not _is_text_by_default(module, node, scope)


def _is_text_by_default(module: ParsedFile, node: ast.expr, scope: Scope) -> bool:
    """Whether the expression is a parameter with a string as default, such as `which="cuda"`."""
    found = module.names.lookup(node.id, scope) if isinstance(node, ast.Name) else None
    default = default_of(node.id, found[0]) if isinstance(node, ast.Name) and found is not None else None
    return isinstance(default, ast.Constant) and isinstance(default.value, str)


def holds_literal_device(module: ProjectFile, node: ast.expr, scope: Scope) -> bool:
    """Whether the value is passed to torch as a device and may come from a literal."""
    project = module.project
    return any(
        project.is_device(place) and LITERAL in project.device_origins(place)
        for place in places(module, node, scope)
    )


def is_setting(module: ProjectFile, node: ast.expr, scope: Scope, *, mapping: bool) -> bool:
    """Whether a value is read at run time, from the environment or from a configuration.

    `mapping` says that the expression reads an item of a mapping by name.
    """
    found = list(places(module, node, scope))
    if TEXT in found:
        return True
    unset = all(module.project.device_origins(place) == {UNKNOWN} for place in found)
    return module.name in module.project.programs.configured and (mapping or unset)


def is_text_of_file(module: ProjectFile, node: ast.expr, scope: Scope) -> bool:
    """Whether the value is an item of a mapping that is read at run time, such as a configuration.

    The program sets no device there itself.
    """
    is_item = isinstance(node, ast.Subscript) or (
        isinstance(node, ast.Call) and last_name(node.func) == "get"
    )
    project = module.project
    if not is_item or module.name not in project.programs.configured:
        return False
    return all(project.device_origins(place) == {UNKNOWN} for place in places(module, node, scope))


def is_served_flag(module: ProjectFile, node: ast.expr, scope: Scope) -> bool:
    """Whether the flag is true under torchax as well, or chosen by the user."""
    origins = {origin for place in places(module, node, scope) for origin in _origins(module, place)}
    return GIVEN in origins and not origins & {ASKED, UNKNOWN}


def _origins(module: ProjectFile, place: str) -> frozenset[str]:
    return module.project.device_origins(place)


def asks_for_cuda(module: ParsedFile, test: ast.expr, scope: Scope) -> bool:
    """Whether a condition is `torch.cuda.is_available()` or the comparison of a device with `"cuda"`."""
    if isinstance(test, ast.Call):
        return module.names.qualified(test.func, scope) == "torch.cuda.is_available"
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq | ast.In):
        return is_cuda_string(test.left) or is_cuda_string(test.comparators[0])
    return isinstance(test, ast.Attribute) and test.attr == "is_cuda"


def jax_form(module: ParsedFile, node: ast.expr, scope: Scope) -> str | None:
    """The device expression with the torchax device instead of CUDA; None for other expressions."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and _DEVICE.match(node.value):
        single = module.source.text[module.source.span(node).start] == "'"
        return "'jax'" if single else '"jax"'
    if is_formatted_cuda(node):
        return '"jax"'
    if (
        isinstance(node, ast.Call)
        and node.args
        and module.names.qualified(node.func, scope) == "torch.device"
    ):
        inner = '"jax"' if _is_number(node.args[0]) else jax_form(module, node.args[0], scope)
        return f"{ast.unparse(node.func)}({inner})" if inner is not None else None
    if isinstance(node, ast.IfExp):
        body, other = jax_form(module, node.body, scope), jax_form(module, node.orelse, scope)
        if _is_number(node.body) or _is_number(node.orelse):  # `0 if torch.cuda.is_available() else "cpu"`
            return body or other
        return body if other is not None else None
    return None


def _is_number(node: ast.expr) -> bool:
    """Whether the node is a literal that may be the index of a GPU."""
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 0


def assigned_device(module: ParsedFile, body: list[ast.stmt], scope: Scope) -> tuple[str, str] | None:
    """The name and the torchax device, if a block only assigns a device to one name."""
    if len(body) != 1 or not isinstance(body[0], ast.Assign) or len(body[0].targets) != 1:
        return None
    target = body[0].targets[0]
    device = jax_form(module, body[0].value, scope)
    is_current = (
        isinstance(body[0].value, ast.Call)
        and module.names.qualified(body[0].value.func, scope) == "torch.cuda.current_device"
    )
    if is_current or (_is_number(body[0].value) and is_device_word(last_name(target))):
        device = '"jax"'
    if device is None or not isinstance(target, ast.Name | ast.Attribute):
        return None
    return ast.unparse(target), device


def is_device_choice(module: ParsedFile, node: ast.AST, scope: Scope) -> bool:
    """Whether the conditional only chooses between CUDA and another device, and is reported as a whole."""
    if isinstance(node, ast.IfExp):
        test = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
        return asks_for_cuda(module, test, scope) and jax_form(module, node, scope) is not None
    if isinstance(node, ast.If):
        chosen = assigned_device(module, node.body, scope)
        other = assigned_device(module, node.orelse, scope) if node.orelse else chosen
        return asks_for_cuda(module, node.test, scope) and chosen is not None and other is not None
    return False


def is_host_without_cuda(module: ParsedFile, node: ast.expr, scope: Scope) -> bool:
    """Whether the expression selects the CPU, by name, if CUDA is not available."""
    if not isinstance(node, ast.IfExp):
        return False
    negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
    test = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
    other = node.body if negated else node.orelse
    named = ast.unparse(other) in ("'cpu'", "torch.device('cpu')")
    return named and isinstance(test, ast.Call) and asks_for_cuda(module, test, scope)


def is_guarded_synchronize(module: ParsedFile, node: ast.AST, scope: Scope) -> bool:
    """Whether the statement only calls `torch.cuda.synchronize()` if CUDA is available."""
    return (
        isinstance(node, ast.If)
        and not node.orelse
        and len(node.body) == 1
        and asks_for_cuda(module, node.test, scope)
        and isinstance(node.body[0], ast.Expr)
        and isinstance(node.body[0].value, ast.Call)
        and module.names.qualified(node.body[0].value.func, scope) == "torch.cuda.synchronize"
    )


def may_be_made_on_device(module: TypedFile, call: ast.Call, scope: Scope) -> bool:
    """Whether the call passes a `device=` that is not known to be the CPU."""
    device = next((item.value for item in call.keywords if item.arg == "device"), None)
    if isinstance(device, ast.Constant):
        return isinstance(device.value, str) and not device.value.startswith("cpu")
    return device is not None and module.kind(device, scope) != Device("cpu")
