"""Texts that name a device of CUDA's."""

from __future__ import annotations

import ast
import re

from tpulint.knowledge.tracing import UNFINISHED_DEVICE

CUDA = re.compile(r"cuda(:\d+)?\Z")


def is_cuda_string(node: ast.AST) -> bool:
    """Whether a node is a literal such as `"cuda"` or `"cuda:0"`."""
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and CUDA.match(node.value) is not None
    )


def starts_cuda(text: str) -> bool:
    """Whether a string names a CUDA device, or only lacks its index, such as `"cuda:"`."""
    return CUDA.match(text) is not None or UNFINISHED_DEVICE.match(text) is not None


def _lacks_index(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str() as text):
            return UNFINISHED_DEVICE.match(text) is not None and not is_cuda_string(node)
    return False


def is_formatted_cuda(node: ast.AST) -> bool:
    """Whether the expression builds the name of a CUDA device, as `f"cuda:{rank}"` does."""
    match node:
        case ast.JoinedStr(values=[text]):
            return is_cuda_string(text)
        case ast.JoinedStr(values=[text, ast.FormattedValue()]):
            return _lacks_index(text)
        case (
            ast.BinOp(left=text, op=ast.Add() | ast.Mod())
            | ast.Call(func=ast.Attribute(value=text, attr="format"))
        ):
            return _lacks_index(text)
    return False


def is_cuda_location(node: ast.AST | None) -> bool:
    """Whether this is `lambda storage, location: storage.cuda()`, a location for `torch.load`."""
    match node:
        case ast.Lambda(
            args=ast.arguments(args=[storage, _]),
            body=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="cuda"))
            | ast.IfExp(
                body=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="cuda")), orelse=ast.Name()
            ),
        ):
            return storage.arg == name
    return False
