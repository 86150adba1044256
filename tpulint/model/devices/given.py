"""The arguments that torch may take as a device, going by names alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.model.devices.places import last_name
from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.parsed_file import ParsedFile

#: What torch calls functions and methods that are given a device by position.
DOORS = ("to", "device", "set_default_device")


def given_device(module: ParsedFile, call: ast.Call, scope: Scope) -> Iterator[ast.expr]:
    """The arguments of a call that torch may take as a device, going by names alone."""
    last = last_name(call.func)
    if last not in DOORS and not any(keyword.arg in ("device", None) for keyword in call.keywords):
        return
    qualified = module.names.qualified(made(module, call, scope), scope)
    # A scaler for `jax` is enabled, and fails then; one for `cuda` disables itself.
    of_torch = qualified is not None and qualified.startswith("torch.") and last != "GradScaler"
    method = qualified is None and isinstance(call.func, ast.Attribute)
    if qualified in ("torch.device", "torch.set_default_device") or (method and last == "to"):
        yield from call.args[:1]
    if of_torch or (method and (last in ("to", "to_empty") or last.startswith("new_"))):
        for keyword in call.keywords:
            if keyword.arg == "device":
                yield keyword.value
            elif keyword.arg is None:
                yield ast.Attribute(keyword.value, "device", ast.Load())


def made(module: ParsedFile, call: ast.Call, scope: Scope) -> ast.expr:
    """What is called, or what `functools.partial` makes a function of."""
    is_partial = call.args and module.names.qualified(call.func, scope) == "functools.partial"
    return call.args[0] if is_partial else call.func
