"""One stage of one case, executed in a process that ends with it.

What comes back is plain: values as `values.Value`, exceptions as their type's name and message.
torchax is imported only in the stages that are about it, since importing it changes torch.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tpulint.verify import recipe as recipes
from tpulint.verify.observe import observed
from tpulint.verify.recipe import Recipe
from tpulint.verify.values import Opaque, Value

Stage = Literal["describe", "reference", "eager", "jit", "tpu"]
SEEDS = (0, 1)


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is to do: a stage, the folder with the code, which file is the module, and run.py."""

    stage: Stage
    folder: Path
    main: str
    run: Path
    recipe: Recipe = field(default_factory=Recipe)
    tpu: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One call: what it gave, or the type and message of what it raised, and what torchax had to do."""

    value: Value = field(default_factory=lambda: Opaque("nothing"))
    error: tuple[str, str] | None = None
    operations: int = 0
    from_host: frozenset[str] = frozenset()
    """Fingerprints of what entered torchax from the host and depends on the inputs."""
    moved: frozenset[str] = frozenset()
    """In the reference: fingerprints of what the code itself moves to a device."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a stage gave: its calls, one for each seed; `broken` says what is wrong with the case itself."""

    calls: tuple[Call, ...] = ()
    recipe: Recipe | None = None
    broken: str = ""
    notes: tuple[str, ...] = ()
    stood_in: tuple[str, ...] = ()
    """torchvision's compiled operators that ran as stand-ins, since the real ones do not load."""


class _BrokenCaseError(Exception):
    """run.py, not the code under study, is at fault."""


def work(job: Job) -> Report:
    """Execute a job; nothing that the case raises gets out."""
    try:
        with _blaming_run_py("run.py"):
            names = recipes.execute(job.run)
        if job.stage == "describe":
            with _blaming_run_py("run.py"):
                return Report(recipe=recipes.read(names))
        sys.path.insert(0, str(job.folder))
        from tpulint.verify import torchvision_standin

        torchvision_standin.install()
        report = _reference(job, names) if job.stage == "reference" else _on_torchax(job, names)
        return dataclasses.replace(report, stood_in=tuple(sorted(torchvision_standin.used)))
    except _BrokenCaseError as error:
        return Report(broken=str(error))


@contextmanager
def _blaming_run_py(what: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        raise _BrokenCaseError(f"{what} raises {type(error).__name__}: {error}") from error


def _reference(job: Job, names: Mapping[str, Any]) -> Report:
    import torch

    from tpulint.verify import reference

    function, calls, notes = recipes.make_call(names), [], []
    with reference.emulation() as mode:
        try:
            module = _load(job)
        except BaseException as error:  # the case's own code may raise anything
            return Report(calls=(_raised(error),))
        for inputs, note in _inputs(names, module):
            notes.extend(note)
            if not job.recipe.inputs_on_host:
                _mark(inputs, reference.on_accelerator)
            torch.manual_seed(0)  # tpulint: ignore[TPU617]
            mode.moved.clear()
            call = _called(partial(function, module, *inputs), _kept(job, inputs))
            calls.append(dataclasses.replace(call, moved=frozenset(mode.moved)))
    return Report(calls=tuple(calls), notes=tuple(notes))


_Run = tuple[Call, Mapping[str, int], set[str]]


def _on_torchax(job: Job, names: Mapping[str, Any]) -> Report:
    import torch

    # torchvision cannot be imported once the environment is entered.
    sources = [path.read_text("utf-8", "replace") for path in job.folder.rglob("*.py")]
    if any(re.search(r"^\s*(import|from) torchvision\b", text, re.MULTILINE) for text in sources):
        import torchvision  # noqa: F401
    import torchax

    from tpulint.verify.on_torchax import Watch

    watch = Watch()
    env = torchax.default_env()
    watch.install(entries=job.stage == "eager")
    if any(re.search(r"^\s*(import|from) torchax_compat\b", text, re.MULTILINE) for text in sources):
        import torchax_compat

        torchax_compat.enable()  # as the program of these files does
        torchax.disable_globally()  # the case is run within `with env` below, as without the runtime
    try:
        with env:
            module = _load(job)
    except BaseException as error:  # the case's own code may raise anything
        return Report(calls=(_raised(error),))
    function = recipes.make_call(names)
    runs: list[_Run] = []
    jit = _Jit(function, module)
    for inputs, _ in _inputs(names, module):
        own = _fingerprints(inputs)
        if not job.recipe.inputs_on_host:
            with env:
                inputs = _moved(inputs)
        watch.restart()
        torch.manual_seed(0)
        env.manual_seed(0)
        with env:
            match job.stage:
                case "eager":
                    call = _called(partial(function, module, *inputs), _kept(job, inputs))
                case "jit":
                    call = _called(partial(jit, inputs), _kept(job, inputs))
                case _:
                    from tpulint.verify import tpu

                    traced = _Traceable(function, module, inputs)
                    call = _called(partial(tpu.compile_for, job.tpu, traced, traced.dynamic))
        runs.append((dataclasses.replace(call, operations=watch.operations), dict(watch.entered), own))
        if job.stage == "tpu":
            # One compilation says it all; only values vary with the seed.
            break
    if job.stage != "eager":
        return Report(calls=tuple(call for call, _, _ in runs))
    return Report(calls=tuple(_with_entries(run, runs, job.recipe) for run in runs))


def _with_entries(run: _Run, runs: list[_Run], recipe: Recipe) -> Call:
    """The call with the host data that entered in it alone; inputs that the code has to move may."""
    call, entered, own = run
    others = [other for completed, other, _ in runs if completed.error is None and other is not entered]
    varying = {key for key, count in entered.items() if any(other.get(key) != count for other in others)}
    return dataclasses.replace(call, from_host=frozenset(varying - (own if recipe.inputs_on_host else set())))


def _load(job: Job) -> Any:
    """The file under study as a module; its neighbours import as they would from their own folder."""
    name = job.main.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    path = job.folder / job.main
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _inputs(names: Mapping[str, Any], module: Any) -> Iterator[tuple[tuple[Any, ...], list[str]]]:
    """Inputs for each call: same shapes, other values, so that what was frozen at the first call shows."""
    import torch

    first: set[str] = set()
    for seed in SEEDS:
        torch.manual_seed(seed)  # tpulint: ignore[TPU617]
        with _blaming_run_py("`inputs()`"):
            inputs = recipes.make_inputs(names, module, seed)
        notes: list[str] = []
        if seed and _fingerprints(inputs) == first:
            # Read from the end, a tensor keeps its range, its number of True, and stays symmetric.
            inputs = _reversed(inputs)
            if _fingerprints(inputs) == first:
                notes.append("both calls have the same inputs, so a frozen constant would not show")
        first = first or _fingerprints(inputs)
        yield inputs, notes


def _reversed(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    import torch
    from torch.utils import _pytree as pytree

    def backwards(tensor: Any) -> Any:
        turned = tensor.detach().flatten().flip(0).reshape(tensor.shape)
        return turned.requires_grad_(tensor.requires_grad)

    turned: tuple[Any, ...] = pytree.tree_map_only(torch.Tensor, backwards, inputs)
    return turned


def _fingerprints(inputs: tuple[Any, ...]) -> set[str]:
    import torch
    from torch.utils import _pytree as pytree

    from tpulint.verify.fingerprint import fingerprint

    states = [
        leaf.state_dict() if isinstance(leaf, torch.nn.Module) else leaf
        for leaf in pytree.tree_leaves(inputs)
    ]
    return {fingerprint(leaf) for leaf in pytree.tree_leaves(states) if isinstance(leaf, torch.Tensor)}


def _mark(inputs: tuple[Any, ...], mark: Callable[[Any], Any]) -> None:
    import torch
    from torch.utils import _pytree as pytree

    for leaf in pytree.tree_leaves(inputs):
        if isinstance(leaf, torch.nn.Module):
            for tensor in (*leaf.parameters(), *leaf.buffers()):
                mark(tensor)
        elif isinstance(leaf, torch.Tensor):
            mark(leaf)


def _moved(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs on torchax; to be called in the environment."""
    import torch
    from torch.utils import _pytree as pytree

    def move(leaf: Any) -> Any:
        return leaf.to("jax") if isinstance(leaf, (torch.Tensor, torch.nn.Module)) else leaf

    with _blaming_run_py("moving the inputs to torchax"):
        moved: tuple[Any, ...] = pytree.tree_map(move, inputs)
    return moved


class _Traceable:
    """A call as a function of the tensors in its inputs alone, weights of modules among them."""

    def __init__(self, function: Callable[..., Any], module: Any, inputs: tuple[Any, ...]) -> None:
        import torch
        from torch.utils import _pytree as pytree
        from torchax import tensor, view

        self._function, self._module = function, module
        self._leaves, self._tree = pytree.tree_flatten(inputs)
        # A tensor that the code itself has to move cannot be an argument: JAX takes none from the host.
        self._at = [i for i, leaf in enumerate(self._leaves) if isinstance(leaf, (tensor.Tensor, view.View))]
        self._modules = [leaf for leaf in self._leaves if isinstance(leaf, torch.nn.Module)]
        self.dynamic = (
            [self._leaves[i] for i in self._at],
            [{**dict(m.named_parameters()), **dict(m.named_buffers())} for m in self._modules],
        )

    def static(self) -> list[str]:
        """What stays as it is for every call of one compiled function, in words that compare."""
        kept = [
            leaf for i, leaf in enumerate(self._leaves) if i not in self._at and leaf not in self._modules
        ]
        return [repr(leaf) for leaf in kept]

    def __call__(self, tensors: list[Any], states: list[dict[str, Any]]) -> Any:
        from torch.nn.utils import stateless
        from torch.utils import _pytree as pytree

        leaves = list(self._leaves)
        for i, value in zip(self._at, tensors, strict=True):
            leaves[i] = value
        with ExitStack() as stack:
            for module, state in zip(self._modules, states, strict=True):
                stack.enter_context(stateless._reparametrize_module(module, state))  # noqa: SLF001
            return self._function(self._module, *pytree.tree_unflatten(leaves, self._tree))


class _Jit:
    """One compiled function for all calls whose static inputs are the same."""

    def __init__(self, function: Callable[..., Any], module: Any) -> None:
        self._function, self._module = function, module
        self._compiled: Callable[..., Any] | None = None
        self._static: list[str] = []

    def __call__(self, inputs: tuple[Any, ...]) -> Any:
        from torchax import interop

        traced = _Traceable(self._function, self._module, inputs)
        if self._compiled is None or traced.static() != self._static:
            self._compiled, self._static = interop.jax_jit(traced), traced.static()
        return self._compiled(*traced.dynamic)


def _kept(job: Job, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
    return inputs if job.recipe.compare_inputs else None


def _called(function: Callable[[], Any], kept: tuple[Any, ...] | None = None) -> Call:
    """The call's result; with what became of the inputs, where they are to be compared."""
    try:
        result = function()
        return Call(value=observed(result if kept is None else (result, kept)))
    except BaseException as error:  # the code under study may raise anything
        return _raised(error)


def _raised(error: BaseException) -> Call:
    return Call(error=(type(error).__name__, str(error)[:4000]))
