"""What a check for CUDA guards: code that works only with CUDA, and the choice of the device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tpulint.knowledge.cuda_api import TENSOR_DTYPES, cuda_call
from tpulint.knowledge.distributed import WRAPPERS
from tpulint.knowledge.gpu_kernels import (
    BUILDERS,
    EXTENSIONS,
    KERNEL_LANGUAGES,
    OTHER_GPU_LIBRARIES,
    OTHER_GPU_TEXT,
    PACKAGES,
    SAME_IN_TORCH,
)
from tpulint.knowledge.tracing import is_device_word
from tpulint.model.devices.literals import is_cuda_string, is_formatted_cuda
from tpulint.model.names.scopes import FunctionNode, Scope
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.parsed_file import ParsedFile

_CUDA_ONLY = ("torch.cuda.", "triton.", "torch.backends.cuda.", "torch.backends.cudnn.")
_ASKS = frozenset(
    {
        *("torch.cuda.is_available", "torch.cuda.synchronize"),
        *("torch.backends.cuda.is_built", "torch.backends.cudnn.is_available"),
    }
)
_TYPES = frozenset(f"torch.cuda.{name}" for name in TENSOR_DTYPES)
#: Methods of lists, texts and loggers.
_TELLING = frozenset({"append", "extend", "join", "format", "debug", "info", "warning"})
#: A function of an extension, such as `roi_align_forward_cuda`; not the method `.cuda()`.
_KERNEL = re.compile(r"\w_cuda(_\w+)?$|(^|\.)cuda_\w+$")
#: Operators that torch itself registers.
_OPERATORS = ("torch.ops.aten.", "torch.ops.prims.", "torch.ops.torchvision.", "torch.ops.higher_order.")


@dataclass(frozen=True, slots=True)
class Guard:
    """What a condition guards.

    `kernel` is the first code that needs CUDA whatever fixes do, such as a call of an extension, and `call`
    the first function of `torch.cuda` that no fix replaces. `device` is the first node that puts something on
    a device. `tells` says that the condition guards nothing but messages.
    """

    kernel: ast.AST | None
    call: ast.AST | None
    device: ast.AST | None
    tells: bool
    reached: tuple[ast.AST, ...]

    @property
    def stays(self) -> bool:
        """Whether the condition is right on a TPU host, where it is false."""
        return self.kernel is not None or self.call is not None or self.tells


def guard_of(module: ProjectFile, node: ast.expr, scope: Scope) -> Guard:
    """What a condition, or a part of one, guards."""
    return _Guarded(module, scope).of(node)


def function_around(module: ParsedFile, node: ast.AST) -> ast.AST:
    """The innermost function that a node lies in, or the whole file."""
    functions = (outer for outer in module.ancestors(node) if isinstance(outer, FunctionNode))
    return next(functions, module.source.tree)


def puts_on_cuda(module: ProjectFile, node: ast.AST, scope: Scope) -> bool:
    """Whether the node names a CUDA device or type, or is `.cuda`."""
    return _Guarded(module, scope).puts_on_cuda(node)


class _Guarded:
    def __init__(self, module: ProjectFile, scope: Scope) -> None:
        self.module = module
        self.scope = scope

    def name(self, node: ast.AST) -> str:
        found = self.module.names.qualified(node, self.scope)
        return self.module.project.resolve(found) if found is not None else ""

    def of(self, node: ast.expr) -> Guard:
        roots, otherwise, operands, negated = self._reached(node)
        inside = [part for root in roots for part in ast.walk(root)]
        reached = [*inside, *(part for root in otherwise for part in ast.walk(root))]
        device = next((part for part in reached if self._is_put(part)), None)
        names = [(self.name(part), part) for part in reached if isinstance(part, ast.Attribute | ast.Name)]
        named = any(self.puts_on_cuda(part) or _is_jax(part) for part in reached)
        if named or device is not None:  # what goes with it is fixed, too
            formatted = set(self._formatted(reached))
            names = [
                (name, part)
                for name, part in names
                if name not in WRAPPERS
                and name not in formatted
                and not name.startswith("torch.backends.")  # set without CUDA, too
                and not self._has_substitute(name, is_choice=device is not None)
            ]
        call = next((part for name, part in names if self._is_for_cuda(name)), None)
        kernel = self._kernel(names, reached, operands, roots)
        if kernel is None and self._builds_extensions():
            kernel = node
        tells = (
            not negated and bool(roots) and isinstance(roots[0], ast.stmt) and all(map(self._tells, inside))
        )
        return Guard(kernel, call, device, tells, tuple(reached))

    def _builds_extensions(self) -> bool:
        """Whether the file builds extensions, and asks what there is to compile for."""
        imports = self.module.project.modules[self.module.name].imports
        return any(target.startswith(EXTENSIONS) for target in imports)

    def _reached(self, node: ast.expr) -> tuple[list[ast.AST], list[ast.AST], list[ast.expr], bool]:
        """Code reached with CUDA alone, and without it, the rest of the condition, and if it is negated."""
        guarded: list[ast.AST] = []
        otherwise: list[ast.AST] = []
        operands: list[ast.expr] = []
        inner: ast.AST = node
        negated = False
        for outer in self.module.ancestors(node):
            if isinstance(outer, ast.BoolOp):
                behind = outer.values[outer.values.index(inner) + 1 :] if inner in outer.values else []
                guarded += behind
                if isinstance(outer.op, ast.And):
                    operands += [value for value in outer.values if value is not inner]
            elif isinstance(outer, ast.UnaryOp):
                negated = not negated
            elif isinstance(outer, ast.If | ast.IfExp | ast.While):
                if outer.test is inner:
                    guarded += outer.body if isinstance(outer.body, list) else [outer.body]
                    if negated and isinstance(outer, ast.If):
                        otherwise += outer.orelse
                if isinstance(outer, ast.If) and isinstance(outer.body[-1], ast.Return | ast.Continue):
                    block = self.module.block(outer)
                    guarded += block[block.index(outer) + 1 :]  # which is reached with CUDA alone
                break
            elif isinstance(outer, ast.stmt):
                break
            inner = outer
        return guarded, otherwise, operands, negated

    def _kernel(
        self,
        names: Sequence[tuple[str, ast.AST]],
        reached: list[ast.AST],
        operands: list[ast.expr],
        roots: list[ast.AST],
    ) -> ast.AST | None:
        """The first code that needs a package of CUDA kernels, or another library that has to see CUDA."""
        for name, part in names:
            head = name.partition(".")[0]
            if (head in PACKAGES and name not in SAME_IN_TORCH) or head in OTHER_GPU_LIBRARIES:
                return part
            if name.startswith("torch.ops.") and name.count(".") > 2 and not name.startswith(_OPERATORS):
                return part
            if self._runs_kernel(name):
                return part
        for part in reached:
            if isinstance(part, ast.Call) and _KERNEL.search(ast.unparse(part.func)):
                return part
            if isinstance(part, ast.Constant) and OTHER_GPU_TEXT.search(str(part.value)):
                return part
        imports = [root for root in roots if isinstance(root, ast.Import | ast.ImportFrom)]
        if imports and len(imports) == len(roots):
            return imports[0]  # it chooses a package
        return next(
            (part for operand in operands for part in ast.walk(operand) if self._is_optional(part)), None
        )

    def _is_optional(self, part: ast.AST) -> bool:
        """Whether a part of a condition asks for an optional package, such as one of kernels."""
        if isinstance(part, ast.Attribute) or (isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)):
            text = part.attr if isinstance(part, ast.Attribute) else part.id
            if any(package in text.lower() for package in PACKAGES):
                return True
        if not isinstance(part, ast.Name):
            return False
        found = self.module.names.lookup(part.id, self.scope)
        for binding in found[1] if found is not None else ():
            bound = binding.value or binding.node
            if bound is not None and any(map(_may_lack, self.module.ancestors(bound))):
                return True
        return False

    def _runs_kernel(self, name: str) -> bool:
        """Whether the name is of kernels in another file of the project, or is a function that calls one."""
        project = self.module.project
        function = project.function(project.resolve(name)) if name else None
        calls = function.calls if function is not None else ()
        return any(
            self._is_of_kernels(one) for one in (name, *(c.callee.removeprefix("name:") for c in calls))
        )

    def _is_of_kernels(self, name: str) -> bool:
        found = self.module.project.split(self.module.project.resolve(name))
        if found is None:
            return False
        if found[0].name == self.module.name:
            return found[1] in self._own_kernels()
        return any(target.partition(".")[0] in KERNEL_LANGUAGES for target in found[0].imports)

    def _own_kernels(self) -> frozenset[str]:
        """The names of kernels in the file: functions of a kernel language, and extensions that it builds."""
        known = self.module.answers.get(_Guarded._own_kernels)
        if known is None:
            index, names = self.module.index, self.module.names
            written = {
                scope.qualname
                for scope in index.functions
                if scope.parent is not None
                and any(self._is_kernel_mark(one, scope.parent) for one in _marks(scope))
            }
            built = {
                name
                for name, bindings in index.module.bindings.items()
                for binding in bindings
                if isinstance(binding.value, ast.Call)
                and names.qualified(binding.value.func, index.module) in BUILDERS
            }
            known = self.module.answers[_Guarded._own_kernels] = frozenset(written | built)
        found: frozenset[str] = known
        return found

    def _is_kernel_mark(self, decorator: ast.expr, scope: Scope) -> bool:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = self.module.names.qualified(called, scope) or ""
        return name.partition(".")[0] in KERNEL_LANGUAGES or name.startswith("numba.cuda.")

    def _is_for_cuda(self, name: str) -> bool:
        """Whether the name is of a function that works only with CUDA."""
        return name not in _ASKS | _TYPES and (name.startswith(_CUDA_ONLY) or name in WRAPPERS)

    def _has_substitute(self, name: str, *, is_choice: bool) -> bool:
        """Whether a fix removes the `torch.cuda` function or replaces it.

        Where the condition chooses the device, that may be an answer that stands in for the one of CUDA.
        """
        known = cuda_call(name)
        if known is None:
            return False
        what = known[1]
        if name == "torch.cuda.current_device" and is_choice:
            return True
        return what.removable or bool(what.instead and (is_choice or not what.stands_in))

    def puts_on_cuda(self, node: ast.AST) -> bool:
        """Whether the node names a CUDA device or type, or is `.cuda`."""
        if isinstance(node, ast.Attribute):
            name = self.name(node)
            return name in _TYPES or (node.attr == "cuda" and not name)
        if isinstance(node, ast.Constant) and node.value in _TYPES:
            return True
        return is_cuda_string(node) or is_formatted_cuda(node)

    def _is_put(self, node: ast.AST) -> bool:
        """Whether the node puts something on a device, or names the device for what follows."""
        if not (self.puts_on_cuda(node) or _is_jax(node) or self._is_current(node)):
            return False
        inner = node
        for outer in self.module.ancestors(node):
            if isinstance(outer, ast.Compare) or isinstance(inner, ast.stmt):
                return not isinstance(outer, ast.Compare) and not self._is_for_questions(inner)
            is_argument = isinstance(outer, ast.Call) and outer.func is not inner
            if isinstance(outer, ast.Call) and is_argument and self.name(outer.func).startswith(_CUDA_ONLY):
                return False  # CUDA is asked about the device
            inner = outer
        return True

    def _is_for_questions(self, statement: ast.AST) -> bool:
        """Whether a statement assigns a device that is passed to nothing but functions of `torch.cuda`."""
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            return False
        function = function_around(self.module, statement)
        reads = self.module.loads.get(statement.targets[0].id, ())
        own = (read for read in reads if function_around(self.module, read) is function)
        calls = [self.module.parent(read) for read in own]
        return bool(calls) and all(
            isinstance(call, ast.Call) and self.name(call.func).startswith(_CUDA_ONLY) for call in calls
        )

    def _is_current(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and self.name(node.func) == "torch.cuda.current_device"

    def _formatted(self, reached: list[ast.AST]) -> Iterator[str]:
        """The names in strings of CUDA devices, such as `current_device` in `f"cuda:{current_device()}"`."""
        for device in reached:
            if is_formatted_cuda(device):
                yield from (self.name(part) for part in ast.walk(device) if isinstance(part, ast.Attribute))

    def _tells(self, node: ast.AST) -> bool:
        """Whether the node only builds or prints a string for the user."""
        match node:
            case ast.Call(func=ast.Attribute(attr=method)):
                return method in _TELLING
            case ast.Call():
                return self.name(node.func) == "builtins.print"
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return not is_device_word(name) and not self.name(node).startswith("torch")
            case ast.Constant(value=value):
                return isinstance(value, str | None) and not is_cuda_string(node) and value != "jax"
            case ast.Raise() | ast.Return():
                return False
        return True


def _marks(scope: Scope) -> list[ast.expr]:
    node = scope.node
    return node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []


def _is_jax(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == "jax"


def _may_lack(node: ast.AST) -> bool:
    """Whether the statement is a `try` that goes on without a package that it imports."""
    if not isinstance(node, ast.Try) or not any(
        isinstance(one, ast.Import | ast.ImportFrom) for one in node.body
    ):
        return False
    texts = (ast.unparse(handler.type) if handler.type else "" for handler in node.handlers)
    return any(
        not text or "ImportError" in text or "ModuleNotFound" in text or "Exception" in text for text in texts
    )
