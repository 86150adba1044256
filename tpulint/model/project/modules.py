"""Which classes are modules of torch: by a base that is known for one, or by what their bodies show."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable

from tpulint.knowledge.tracing import MODULE_BASES
from tpulint.model.project.classes import Classes
from tpulint.model.project.facts import SOME_BASE, ClassFacts, ModuleFacts

#: Packages whose classes are never modules of torch, though some have a `forward` or layers, too.
_OTHERS = frozenset(
    {
        *("chainer", "flax", "haiku", "jax", "keras", "mindspore", "mxnet", "oneflow", "onnx", "onnxruntime"),
        *("paddle", "tensorflow", "torch", "tinygrad", "numpy", "pydantic", "attr", "abc", "enum", "typing"),
    }
)
_NEVER = _OTHERS | sys.stdlib_module_names
#: Methods of what trains or serves a model that it holds.
_OF_TRAINERS = frozenset({"fit", "run", "serve", "train_epoch", "train_one_epoch", "train_step"})
_LAYERS = ("torch.nn.", "torch.nn.modules.")


class ModuleClasses(Classes):
    """The classes of a project, some of which are modules of torch."""

    def __init__(self, modules: Iterable[ModuleFacts]) -> None:
        super().__init__(modules)
        self._modules: dict[str, bool] = {}

    def is_module_class(self, name: str) -> bool:
        """Whether the class is a `torch.nn.Module`."""
        resolved = self.resolve(name)
        if resolved not in self._modules:
            self._modules[resolved] = is_module(self, resolved)
        return self._modules[resolved]


def is_module(project: Classes, name: str) -> bool:
    """Whether a class, by its resolved name, is a `torch.nn.Module`."""
    ancestors = project.mro(name)
    if any(map(_is_known, ancestors)):
        return True
    outside = [ancestor for ancestor in ancestors if project.class_(ancestor) is None]
    return any(map(_may_be_module, outside)) and any(
        _shows_module(project, ancestor, facts)
        for ancestor in ancestors
        if (facts := project.class_(ancestor)) is not None
    )


def _is_known(base: str) -> bool:
    return (
        base in MODULE_BASES
        or base.startswith(("torch.nn.modules.", "torch.nn.parallel."))
        or (base.startswith("torch.nn.") and base[9:10].isupper())
    )


def _may_be_module(base: str) -> bool:
    """Whether a class of a library, or of nobody knows where, may be a module."""
    head, _, inner = base.partition(".")
    if base == SOME_BASE:
        return True
    return bool(inner) and head not in _NEVER and not hasattr(builtins, head)


def _shows_module(project: Classes, name: str, facts: ClassFacts) -> bool:
    """Whether the body of a class shows a module: a `forward`, or layers that it makes for itself."""
    if project.method(name, "forward") == f"{name}.forward":
        forward = project.function(f"{name}.forward")
        return forward is not None and project.uses_torch(name)
    made = project.function(f"{name}.__init__")
    if made is None or not _OF_TRAINERS.isdisjoint(facts.methods):
        return False
    begins = any(call.callee == "super:__init__" for call in made.calls)
    layers = any(one.startswith(_LAYERS) for classes in facts.modules.values() for one in classes)
    return begins and (layers or bool(facts.tensors))
