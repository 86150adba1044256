"""Conditions whose value is the same in every trace on torchax."""

from __future__ import annotations

import ast

#: Calls whose value is the same in every trace on torchax, and what it is.
#: Source: run under `torchax.interop.jax_jit` with torch 2.13, torchax 0.0.14.dev20261026.
SETTLED = {
    "torch.jit.is_scripting": False,
    "torch.jit.is_tracing": False,
    "torch.onnx.is_in_onnx_export": False,
    "torch.compiler.is_compiling": False,
    "torch.compiler.is_exporting": False,
    "torch.compiler.is_dynamo_compiling": False,
    "torch.fx._symbolic_trace.is_fx_tracing": False,
    "torch.cuda.is_available": False,
    "typing.TYPE_CHECKING": False,
}

#: Types of devices that are neither a GPU's, the host's, nor torchax's.
_OTHER_DEVICES = frozenset({"hpu", "mlu", "mps", "npu", "xpu"})


def of_other_device(test: ast.Compare) -> bool | None:
    """The value of a comparison of a device's type with one that torchax never has; None for any other."""
    match test:
        case (
            ast.Compare(
                left=ast.Attribute(attr="type"),
                ops=[ast.Eq() | ast.NotEq() as op],
                comparators=[ast.Constant(value=str(name))],
            )
            | ast.Compare(
                left=ast.Constant(value=str(name)),
                ops=[ast.Eq() | ast.NotEq() | ast.In() | ast.NotIn() as op],
                comparators=[ast.Attribute(attr="type")],
            )
        ) if name in _OTHER_DEVICES:
            return isinstance(op, ast.NotEq | ast.NotIn)
    return None
