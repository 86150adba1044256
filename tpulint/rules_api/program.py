"""`ctx.program`: the project and its programs: entry, runtime, gradients, training steps, processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.handled import HANDLED, Handled
from tpulint.knowledge.targets import TARGETS, Target
from tpulint.model.names.scopes import Scope
from tpulint.model.processes.groups import backends, is_start, runs_on_torch_xla, serves_host
from tpulint.model.processes.settings import settings
from tpulint.model.processes.spawned import is_number_of_processes, spawned
from tpulint.model.processes.variables import VariableWrite, variable_write
from tpulint.model.project.facts import ModuleFacts
from tpulint.model.project.takers import handed_to_accelerate, is_accelerator
from tpulint.model.project.trace_path import Certainty
from tpulint.model.training.losses import losses_of
from tpulint.model.training.regions import Region
from tpulint.model.training.steps import Steps
from tpulint.model.training.updates import computes, is_whole, update
from tpulint.model.values.saved import saved_elsewhere
from tpulint.rules_api.namespace import Namespace


class Program(Namespace):
    """The project, and the programs that the file is a part of."""

    __slots__ = ()

    # files and entry

    @property
    def is_imported(self) -> bool:
        """Whether another file of the project imports this file, or this file is part of a package."""
        return "." in self._module.name or self.has_importers

    @property
    def has_importers(self) -> bool:
        """Whether another file of the project imports this file."""
        return bool(self._module.project.importing[self._module.name])

    @property
    def is_single_file(self) -> bool:
        """Whether the program is this file alone, without other files of the project."""
        return not self.has_importers and len({facts.name for facts in self._parts()}) == 1

    @property
    def is_import_time(self) -> bool:
        """Whether the code runs when its file is imported."""
        return self.scope.function is None

    @property
    def is_of_script(self) -> bool:
        """Whether the file belongs to the program of a script, not to a library alone."""
        return self._module.name in self._module.project.programs.of_scripts

    @property
    def target(self) -> Target:
        """The library through which fixed programs use a TPU."""
        return TARGETS[self._module.project.target]

    @property
    def keeps_cuda(self) -> bool:
        """Whether fixed programs have to run on CUDA as well (the setting `keep-gpu`)."""
        return self._module.project.keeps_gpu

    @property
    def environment(self) -> tuple[str, ...]:
        """The additions to the torchax environment that the project settings ask for."""
        return self._module.project.environment

    @property
    def sharding(self) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], int]:
        """The sharding rules of the project settings, and the number of devices for them, or 0."""
        return self._module.project.sharding

    @property
    def file_imports(self) -> frozenset[str]:
        """The qualified names that this file imports."""
        return frozenset(self._module.project.modules[self._module.name].imports)

    def imports_package(self, package: str) -> bool:
        """Whether a file of the program imports a package."""
        targets = (target for facts in self._parts() for target in facts.imports)
        return any(target.partition(".")[0] == package for target in targets)

    @property
    def imports_torch(self) -> bool:
        """Whether the file imports torch, or is linked by imports to a file that does."""
        project = self._module.project
        facts = project.modules[self._module.name]
        starred = (project.split(star) for star in facts.stars)
        users = (project.modules[name] for name in project.importing[self._module.name])
        visible = [facts, *(found[0] for found in starred if found is not None), *users]
        return any(target.partition(".")[0] == "torch" for one in visible for target in one.imports)

    def defines(self, name: str) -> bool:
        """Whether a file of the project defines the function or class with this qualified name."""
        return self._module.project.home(name) is not None

    def is_imported_elsewhere(self, name: str) -> bool:
        """Whether another file imports this global variable of the file."""
        return f"{self._module.name}.{name}" in self._module.project.imported

    # torchax

    @property
    def places_tensors(self) -> bool:
        """Whether this file moves a tensor or module to a device."""
        return self._module.project.modules[self._module.name].placed_anywhere

    @property
    def places_anything(self) -> bool:
        """Whether the program moves a tensor or module to a device."""
        return self._module.project.places(self._module.name)

    @property
    def serves_device(self) -> bool:
        """Whether the program uses a device or the torchax environment."""
        return self._module.project.serves_device(self._module.name)

    @property
    def is_entered(self) -> bool:
        """Whether this file, or what the program imports, enters the torchax environment."""
        own = self._module.project.modules[self._module.name]
        return own.enters or any(facts.enters_when_imported for facts in self._parts())

    @property
    def has_cuda_default(self) -> bool:
        """Whether the program makes a CUDA type the default type of tensors."""
        return self._module.name in self._module.project.programs.with_cuda_default

    # the runtime torchax-compat

    @property
    def has_runtime(self) -> bool:
        """Whether the program has the runtime torchax-compat, or gets it as it computes gradients."""
        return self.asks_gradients or self._module.project.uses_runtime

    @property
    def uses_runtime(self) -> bool:
        """Whether the program imports the runtime torchax-compat."""
        return self._module.project.program_uses_runtime(self._module.name)

    @property
    def finds_runtime(self) -> bool:
        """Whether the runtime torchax-compat is installed, or declared as a dependency."""
        return self._module.project.finds_runtime

    def runtime_handles(self, subject: str, operator: str = "") -> bool:
        """Whether the program has the runtime torchax-compat, which handles this, as a test shows.

        `subject` is a name of the table `HANDLED`; `operator` is one of its operators, if it has any.
        """
        handled = HANDLED[subject]
        if operator and operator not in handled.operators:
            return False
        has_runtime = self.uses_runtime if handled.in_program else self._module.project.uses_runtime
        has_runtime = has_runtime or (handled.with_gradients and self.asks_gradients)
        if not has_runtime or not self._is_shown(handled, operator):
            return False
        self._module.handled.add(subject)
        return True

    def _is_shown(self, handled: Handled, operator: str) -> bool:
        """Whether the tests show it for this code, which the program may jit itself."""
        path = self._module.trace_path(self.scope)
        if path is None or path.certainty is not Certainty.JIT:
            return True
        return handled.in_jit if isinstance(handled.in_jit, bool) else operator in handled.in_jit

    # training

    @property
    def is_trained(self) -> bool:
        """Whether the program computes gradients."""
        return self._module.name in self._module.project.programs.training

    @property
    def is_differentiated(self) -> bool:
        """Whether the program computes its gradients with JAX."""
        return self._module.name in self._module.project.programs.differentiated

    @property
    def asks_gradients(self) -> bool:
        """Whether the program computes gradients, with torch or with JAX."""
        return self._module.project.programs.asks_gradients(self._module.name)

    @property
    def calls_backward(self) -> bool:
        """Whether the program calls `loss.backward()`, or uses a gradient scaler."""
        return self._module.name in self._module.project.programs.calling_backward

    @property
    def training_steps(self) -> Steps:
        """The computations of the losses of this file."""
        return self._module.training_steps

    def losses(self, call: ast.Call) -> list[ast.expr]:
        """The losses on which a call of `backward` is called."""
        name = self._module.names.qualified(call.func, self.scope)
        return losses_of(call, self._module.project.resolve(name) if name is not None else None)

    def is_loss_consumer(self, function: Scope | None) -> bool:
        """Whether the function calls `backward` on one of its parameters."""
        name = f"{self._module.name}.{function.qualname}" if function is not None else ""
        return any(one.function == name and one.is_whole for one in self._module.project.takers)

    def weight_update(self, loop: ast.For) -> Region | None:
        """The computation of a loop that only writes to weights, without gradients; None for other loops."""
        return update(self._module, loop, self.scope)

    def computes_weights(self, loop: ast.For) -> bool:
        """Whether the loop computes the weights that it writes, and does not only copy them."""
        return computes(loop)

    def only_updates_weights(self, function: Scope, loops: list[ast.For]) -> bool:
        """Whether a function consists of these updates of weights, and always works in the same way."""
        node = function.node
        is_steady = self.training_steps.changing.unsteady_function(function) is None
        return isinstance(node, ast.FunctionDef) and is_steady and is_whole(node, loops)

    def saved_elsewhere(self) -> Iterator[tuple[ast.expr, Scope]]:
        """Arguments that this file passes to functions of other files that save them, with their scopes."""
        return saved_elsewhere(self._module)

    # processes, and libraries that start them

    @property
    def is_grouped(self) -> bool:
        """Whether the program starts a process group, and none for CPU tensors."""
        return self._module.name in self._module.project.programs.grouped

    @property
    def may_lack_group(self) -> bool:
        """Whether the program has no process group on a TPU host, or one that does not support torchax."""
        return self._module.name in self._module.project.programs.lacking_group

    @property
    def has_rank_per_device(self) -> bool:
        """Whether the runtime makes each device a rank of the program, so that its process group works.

        The program starts a process group, and samplers give each process its share of the samples.
        The processes differ in nothing else.
        """
        if self.keeps_cuda or "mesh" in self.environment:
            return False
        return self._module.name in self._module.project.programs.ranked

    @property
    def splits_batches(self) -> bool:
        """Whether one process of the program splits each batch over its devices, with `DataParallel`."""
        return self._module.name in self._module.project.programs.splitting

    @property
    def starts_host_group(self) -> bool:
        """Whether this file starts a process group for CPU tensors."""
        return any(self._module.project.modules[self._module.name].groups)

    @property
    def reads_wrapped_module(self) -> bool:
        """Whether the program reads `.module` of a model that is wrapped elsewhere, or keys that begin so."""
        return self._module.name in self._module.project.programs.unwrapping

    @property
    def runs_on_torch_xla(self) -> bool:
        """Whether this file depends on torch_xla: it imports it in any case, or asks it for a device."""
        return runs_on_torch_xla(self._module)

    def starts_group(self, call: ast.Call) -> bool:
        """Whether the call starts a process group."""
        return is_start(self._module, call, self.scope)

    def group_backends(self, call: ast.Call) -> frozenset[str | None]:
        """The backends that the process group may have on a TPU host; None for one that is not known."""
        return backends(self._module, call, self.scope)

    def group_serves_host(self, call: ast.Call) -> bool:
        """Whether the process group has a CPU backend (`gloo` or `mpi`) on a TPU host."""
        return serves_host(self._module, call, self.scope)

    def spawned(self, call: ast.Call) -> dict[str, ast.expr] | None:
        """The arguments of a call of `torch.multiprocessing.spawn`, by name; None for other calls."""
        return spawned(self._module, call, self.scope)

    def is_number_of_processes(self, call: ast.Call) -> bool:
        """Whether the call computes the number of processes that `spawn` starts."""
        return is_number_of_processes(self._module, call, self.scope)

    # settings

    def texts(self, node: ast.expr) -> frozenset[str | None]:
        """All strings that an expression may be on a TPU host, as far as the file says; None for others.

        They are followed through names, parameters with the values that this file passes, attributes, keys of
        dictionaries, and defaults of command-line options and environment variables.
        """
        return settings(self._module, node, self.scope)

    def variable_write(self, name: ast.expr) -> VariableWrite | None:
        """How code sets the environment variable with this name; None if it does not.

        The name is the key of `os.environ[...] = value` or of a dictionary, or an argument of
        `os.environ.setdefault`, `os.putenv` or pytest's `setenv`.
        """
        return variable_write(self._module, name, self.scope)

    def creates_accelerator(self, call: ast.Call) -> bool:
        """Whether the call creates an `Accelerator` without `cpu=True`."""
        name = self._module.names.qualified(call.func, self.scope)
        return is_accelerator(call, self._module.project.resolve(name) if name is not None else None)

    def is_accelerate_backward(self, call: ast.Call) -> bool:
        """Whether the call is `accelerator.backward(loss)`."""
        return handed_to_accelerate(call) is not None

    def _parts(self) -> Iterator[ModuleFacts]:
        """The file, and all files of the project that it imports."""
        return self._module.project.program(self._module.name)
