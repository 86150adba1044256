"""Traced code that belongs to a model."""

from __future__ import annotations

from tpulint.model.names.scopes import Scope
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.project.trace_path import Certainty


def is_of_model(module: ProjectFile, scope: Scope) -> bool:
    """Whether code is jitted by name, or runs in the `forward` of a module with layers or tensors."""
    path, function, project = module.trace_path(scope), scope.function, module.project
    if path is None or function is None or path.certainty > Certainty.FORWARD:
        return False
    if path.certainty is Certainty.JIT:
        return True
    root = path.steps[1].caller if len(path.steps) > 1 else f"{module.name}.{function.qualname}"
    classes = map(project.class_, project.mro((root or "").rpartition(".")[0]))
    return any(facts is not None and (facts.modules or facts.tensors) for facts in classes)
