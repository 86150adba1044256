"""`ctx.devices`: checks for CUDA, expressions that name devices, and where tensors live."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from tpulint.model.devices.doors import (
    assigned_device,
    becomes_device,
    holds_device,
    holds_literal_device,
    is_device_choice,
    is_guarded_synchronize,
    is_host_without_cuda,
    is_served_flag,
    is_setting,
    is_text_of_file,
    jax_form,
    made_on_import,
    may_be_made_on_device,
    takes_device,
)
from tpulint.model.devices.guarded import Guard, guard_of, puts_on_cuda
from tpulint.model.devices.linked import decision
from tpulint.model.devices.moving import Moves
from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.handlers import caught
from tpulint.model.tracing.guards import CUDA, PROCESSES, SEVERAL, asks, only_with
from tpulint.model.values.pending import body_around, pending
from tpulint.rules_api.namespace import Namespace


class Devices(Namespace):
    """Checks for CUDA, expressions that name devices, and where tensors live."""

    __slots__ = ()

    # checks

    def only_with_cuda(self, node: ast.AST) -> bool:
        """Whether the code runs only if CUDA is available, and so never on a TPU host."""
        return only_with(CUDA, self._module, node, self.scope)

    def only_with_processes(self, node: ast.AST) -> bool:
        """Whether the code runs only with several processes, and so in a process group.

        In a program that starts a group, or has lost it, a flag or an environment variable is not enough: a
        launcher may have set it for one process.
        """
        is_lacking = self._module.name in self._module.project.programs.lacking_group
        return only_with(SEVERAL if is_lacking else PROCESSES, self._module, node, self.scope)

    def is_caught(self, node: ast.AST) -> bool:
        """Whether an `except` around the code catches the error that is raised without CUDA."""
        return caught(self._module, node, self.scope)

    def means_cuda(self, test: ast.expr) -> bool:
        """Whether a condition is true only if CUDA is available."""
        return asks(CUDA, self._module, test, self.scope, truth=True)

    def guard(self, node: ast.expr) -> Guard:
        """The code that a condition, or a part of one, guards."""
        return guard_of(self._module, node, self.scope)

    def why_no_fix(self, node: ast.expr, *, chooses: bool = True) -> str | None:
        """The end of a message that says why a check for CUDA has no fix; "" if it has one.

        None if the check is not reported. With `chooses`, the check may decide where the program runs; one of
        a tensor's device follows that decision.
        """
        return decision(self._module, node, self.scope, chooses=chooses)

    def is_guarded_synchronize(self, node: ast.AST) -> bool:
        """Whether the statement only calls `torch.cuda.synchronize()` if CUDA is available."""
        return is_guarded_synchronize(self._module, node, self.scope)

    # expressions that name devices

    def takes_device(self, call: ast.Call, slot: ast.expr) -> bool:
        """Whether the argument is one that torch takes as a device."""
        return takes_device(self._module, call, slot, self.scope)

    def becomes_device(self, node: ast.expr, *, itself: bool = False) -> bool:
        """Whether the value is passed to torch as a device anywhere in the project.

        With `itself`, an expression that is such an argument counts as well.
        """
        return becomes_device(self._module, node, self.scope, doors=itself)

    def holds_device(self, node: ast.expr) -> bool:
        """Whether the expression is a device, or a name that is passed to torch as one."""
        return holds_device(self._module, node, self.scope)

    def holds_literal_device(self, node: ast.expr) -> bool:
        """Whether the value is passed to torch as a device and may come from a literal."""
        return holds_literal_device(self._module, node, self.scope)

    def is_setting(self, node: ast.expr, *, mapping: bool) -> bool:
        """Whether the value is read at run time, from the environment or from a configuration.

        `mapping` says that the expression reads an item of a mapping by name.
        """
        return is_setting(self._module, node, self.scope, mapping=mapping)

    def is_text_of_file(self, node: ast.expr) -> bool:
        """Whether the value is an item of a mapping that is read at run time, such as a configuration.

        The program sets no device there itself.
        """
        return is_text_of_file(self._module, node, self.scope)

    def is_device_choice(self, node: ast.AST) -> bool:
        """Whether the conditional only chooses between CUDA and another device; it is reported as a whole."""
        return is_device_choice(self._module, node, self.scope)

    def is_host_without_cuda(self, node: ast.expr) -> bool:
        """Whether the expression selects the CPU, by name, if CUDA is not available."""
        return is_host_without_cuda(self._module, node, self.scope)

    def is_served_flag(self, node: ast.expr) -> bool:
        """Whether the flag is true under torchax as well, or chosen by the user."""
        return is_served_flag(self._module, node, self.scope)

    def is_made_on_import(self, node: ast.expr) -> bool:
        """Whether the expression is part of a `torch.device(...)` that runs when the file is imported.

        torchax, without which `torch.device("jax")` raises, may not be imported by then.
        """
        return made_on_import(self._module, node, self.scope)

    def names_cuda(self, node: ast.AST) -> bool:
        """Whether the node names a CUDA device or type, or is `.cuda`."""
        return puts_on_cuda(self._module, node, self.scope)

    def jax_form(self, node: ast.expr) -> str | None:
        """The device expression with the torchax device instead of CUDA; None for other expressions."""
        return jax_form(self._module, node, self.scope)

    def assigned_device(self, body: list[ast.stmt]) -> tuple[str, str] | None:
        """The name and the torchax device, if a block only assigns a device to one name."""
        return assigned_device(self._module, body, self.scope)

    # where tensors live

    def may_be_made_on_device(self, call: ast.Call) -> bool:
        """Whether the call passes a `device=` that is not known to be the CPU."""
        return may_be_made_on_device(self._module, call, self.scope)

    def starts_on_host(self, node: ast.expr) -> bool:
        """Whether the device is that of an attribute that holds a CPU tensor by default.

        That is an attribute of `self` to which this file assigns only CPU tensors, with the default devices
        of the methods.
        """
        return self._module.starts_on_host(node, self.scope)

    def mixes_host_tensor(self, call: ast.Call) -> bool:
        """Whether traced code combines the CPU tensor that this call creates with a device tensor."""
        return self._module.source.span(call).start in self._module.mixed

    def written_from_device(self, node: ast.Subscript) -> list[ast.Call]:
        """The calls that create the CPU tensor into which a device tensor is written; else none."""
        return self._module.written_from_device(node, self.scope)

    def pending(self, statement: ast.stmt, waits: Callable[[ast.stmt], bool]) -> list[str]:
        """Names of tensors that the function computes before a statement, after it last waited for them.

        `waits` says which statements wait for the device.
        """
        body = body_around(self._module, self.scope)
        return pending(self._module, body, statement, self.scope, waits)

    # what puts tensors on a device

    def moves(self, call: ast.Call) -> bool:
        """Whether the call puts something on a device, or sets the device of new tensors."""
        return Moves(self._module).by_call(call, self.scope)

    def moves_in(self, function: Scope) -> bool:
        """Whether the function puts something on a device."""
        return Moves(self._module).in_function(function)

    def moves_by_name(self, name: str) -> bool:
        """Whether the function, method or class with this qualified name puts something on a device."""
        return Moves(self._module).by_name(name)

    def moves_by_import(self, statement: ast.Import | ast.ImportFrom) -> bool:
        """Whether the import runs a file of the project that puts something on a device."""
        return Moves(self._module).by_import(statement)

    def passed_moves(self) -> Iterator[ast.expr]:
        """Places of the script's own code that pass on a function which puts something on a device."""
        return Moves(self._module).passed()

    def starts_unknown(self, calls: Iterable[ast.Call]) -> Iterator[ast.Call]:
        """Calls of the script's own code whose callee is not known, so that it may use a device."""
        return Moves(self._module).unknown(calls)
