"""Watches what torchax really executes, and where host data enters it.

`python -m tpulint.verify.on_torchax RECORD script.py [argument ...]` runs a script as python would and
leaves its record in the file RECORD.
"""

from __future__ import annotations

import functools
import os
import runpy
import sys
from collections import Counter
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from tpulint.verify import torchvision_standin
from tpulint.verify.fingerprint import fingerprint
from tpulint.verify.record import Recorder
from tpulint.verify.steps import Extent

#: The modules of `torchax_compat` that compute without `Environment.dispatch`.
_SHORTER_WAYS = tuple(
    f"torchax_compat.tensor.{name}" for name in ("dispatch", "conversions", "compiled_operations")
)


#: The one through which tensors are made there.
_BETWEEN = "torchax_compat.tensor.representation"


def _maker() -> str:
    """The module of the function that makes a tensor."""
    frame = sys._getframe(2)  # noqa: SLF001
    if frame.f_back is not None and _module(frame).endswith(_BETWEEN):
        frame = frame.f_back
    return _module(frame)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


class Watch:
    """Counts the operations that torchax executed and fingerprints the host data that entered it.

    An operation counts when `Environment.dispatch`, through which every call of torch's API goes while
    the environment is entered, gives back a tensor of torchax; so do `interop.call_jax`, the few methods of
    torchax's tensors that go past the dispatch, and what `torchax_compat` takes a shorter way for.
    Host data that differs when only the inputs differ was computed on the host from the inputs: that is
    how a round trip is told from a constant, whatever way the data took out of torchax.
    """

    def __init__(self) -> None:
        self.operations = 0
        self.entered: Counter[str] = Counter()
        self._tensors: tuple[type, ...] = ()

    def restart(self) -> None:
        """Forget what was seen so far."""
        self.operations = 0
        self.entered = Counter()

    def is_there(self, value: Any) -> bool:
        """Whether a value is a tensor of torchax."""
        return isinstance(value, self._tensors)

    def install(self, *, entries: bool) -> None:
        """Hook into torchax, which must be imported by now; `entries` takes fingerprints too."""
        import torch
        from torch.utils import _pytree as pytree
        from torchax import interop, tensor, view

        self._tensors = (tensor.Tensor, view.View)
        environment = tensor.Environment
        dispatch = environment.dispatch

        @functools.wraps(dispatch)
        def watched(env: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            if entries and func in (torch.tensor, torch.as_tensor):
                data = args[0] if args else (kwargs or {}).get("data")
                if env._should_use_torchax_tensor((kwargs or {}).get("device")):  # noqa: SLF001
                    self._enter(data)
            elif entries:
                # A 0-d host tensor takes part in torchax's mathematics without being moved first.
                leaves = pytree.tree_leaves((args, kwargs))
                if any(map(self.is_there, leaves)):
                    for leaf in leaves:
                        if isinstance(leaf, torch.Tensor):
                            self._enter(leaf)
            result = dispatch(env, func, types, args, kwargs)
            if any(map(self.is_there, pytree.tree_leaves(result))):
                self.operations += 1
            return result

        environment.dispatch = watched
        self._count_shorter_ways(tensor.Tensor)
        self._count(interop, "call_jax")
        for owner, name in (
            (tensor.Tensor, "__setitem__"),
            (tensor.Tensor, "flatten"),
            (view.View, "__setitem__"),
        ):
            self._count(owner, name)
        if entries:
            move = environment.t2j_copy

            @functools.wraps(move)
            def moved(env: Any, values: Any) -> Any:
                for leaf in pytree.tree_leaves(values):
                    self._enter(leaf)
                return move(env, values)

            environment.t2j_copy = moved

    def _count_shorter_ways(self, kind: Any) -> None:
        """Count the tensors that the runtime makes itself of what it computed."""
        make = kind.__init__

        @functools.wraps(make)
        def made(tensor: Any, *args: Any, **kwargs: Any) -> None:
            make(tensor, *args, **kwargs)
            if _maker().endswith(_SHORTER_WAYS):
                self.operations += 1

        kind.__init__ = made

    def _count(self, owner: Any, name: str) -> None:
        function: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            import jax

            result = function(*args, **kwargs)
            # Waiting is not computing.
            if not (args and args[0] is jax.block_until_ready):
                self.operations += 1
            return result

        setattr(owner, name, counted)

    def _enter(self, data: Any) -> None:
        if not self.is_there(data):
            self.entered[fingerprint(data)] += 1


class _WatchOnImport(MetaPathFinder, Loader):
    """Installs the watch as soon as the program imports torchax; a program that never does pays nothing."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._loader: Loader | None = None

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torchax":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec) if self._loader else None

    def exec_module(self, module: ModuleType) -> None:
        if self._loader:
            self._loader.exec_module(module)
            self._watch.install(entries=False)


def run_script(
    target: Path, path: str, arguments: list[str], *, is_watched: bool = True, extent: Extent | None = None
) -> None:
    """Run a script as `python path arguments` would, and leave its record in `target`.

    What torchax executes is counted where it `is_watched`, which takes time at each operation.
    """
    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(path))  # what python does
    watch = Watch()
    if is_watched:
        sys.meta_path.insert(0, _WatchOnImport(watch))
    torchvision_standin.install()
    with Recorder(watch.is_there, extent).kept(target, lambda: watch.operations):
        runpy.run_path(path, run_name="__main__")


if __name__ == "__main__":  # tpulint: ignore[TPU001]
    is_watched = sys.argv[1] != "--unwatched"
    record, script, *rest = sys.argv[1 if is_watched else 2 :]
    run_script(Path(record).resolve(), script, rest, is_watched=is_watched)
