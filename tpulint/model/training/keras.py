"""Models of Keras, which TensorFlow trains."""

from __future__ import annotations

import ast

from tpulint.knowledge.tensorflow_api import MODELS
from tpulint.model.names.scopes import Scope
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.training.called import own_function

_ROOTS = frozenset({"keras", "tensorflow"})


def creates_model(module: ProjectFile, call: ast.Call, scope: Scope) -> bool:
    """Whether a call creates a model of Keras.

    It does if it calls a class of Keras, or a function of the file that does and enters no strategy. It also
    does if its result is compiled in the same block, in a file that imports Keras or TensorFlow.
    """
    if _is_constructor(module, call, scope) or _is_compiled(module, call):
        return True
    function = own_function(module, call.func, scope)
    if function is None or not isinstance(function.node, ast.FunctionDef):
        return False
    calls = [node for node in ast.walk(function.node) if isinstance(node, ast.Call)]
    enters = any(isinstance(one.func, ast.Attribute) and one.func.attr == "scope" for one in calls)
    return not enters and any(_is_constructor(module, one, function) for one in calls)


def _is_constructor(module: ProjectFile, call: ast.Call, scope: Scope) -> bool:
    name = module.names.qualified(call.func, scope) or ""
    return name in MODELS or name.removeprefix("tensorflow.").startswith("keras.applications.")


def _is_compiled(module: ProjectFile, call: ast.Call) -> bool:
    """Whether a statement assigns the result, and one after it calls its `compile` with a loss."""
    statement = module.statement(call)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is call:
            pass
        case _:
            return False
    imported = {target.partition(".")[0] for target in module.project.modules[module.name].imports}
    return bool(imported & _ROOTS) and any(
        _compiles(other, name) for other in module.block(statement) if other.lineno > statement.lineno
    )


def _compiles(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="compile")) as call):
            words = {word.arg for word in call.keywords}
            return owner == name and (len(call.args) > 1 or bool(words & {"loss", "optimizer"}))
    return False
