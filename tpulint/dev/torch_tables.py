"""Writes `tpulint/knowledge/torch_api.py` from the type stubs of the installed torch.

Run `python -m tpulint.dev.torch_tables` where the torch that is to be described is installed.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

TARGET = Path(__file__).parents[1] / "knowledge" / "torch_api.py"
HEADER = '''"""What torch's functions, methods and attributes return; generated, do not edit.

Source: the type stubs that torch {version} ships (`torch/_C/_VariableFunctions.pyi`,
`torch/_C/__init__.pyi`, `torch/nn/functional.py[i]`), read by `python -m tpulint.dev.torch_tables`.

Each word lists, separated by a bar, what the overloads return: `tensor`, `tensors` (a tuple or list
of tensors), `static` (a Python value that is known while tracing, such as a size), `other`.
"""

TORCH_VERSION = "{version}"


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {{name: word for word, names in table.items() for name in names.split()}}

'''
STATIC = {
    "_bool",
    "bool",
    "_int",
    "int",
    "_size",
    "Size",
    "torch.Size",
    "_dtype",
    "torch.dtype",
    "_device",
    "_layout",
    "torch.layout",
    "torch.device",
    "builtins.int",
    "builtins.bool",
    "str",
    "SymInt",
    "_int | SymInt",
    "tuple[_int, ...]",
}
SCALAR_NAMESPACES = ("linalg", "fft", "special")


def returned(annotation: ast.expr | None) -> str:
    """The word for a stub's return annotation."""
    text = ast.unparse(annotation) if annotation is not None else ""
    if text in ("Tensor", "torch.Tensor", "Self", "Tensor | None", "Tensor | Number"):
        return "tensor"
    if text in STATIC:
        return "static"
    if text.startswith(("torch.return_types.", "tuple[Tensor", "list[Tensor", "List[Tensor", "Tuple[Tensor")):
        return "tensors"
    if text.startswith("tuple[") and "Tensor" in text:
        return "tensors"
    return "other"


def collect(body: Iterable[ast.stmt]) -> dict[str, str]:
    """Name of each function in a stub's body, with the words of its overloads."""
    words: dict[str, set[str]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
            words.setdefault(node.name, set()).add(returned(node.returns))
    return {name: "|".join(sorted(found)) for name, found in sorted(words.items())}


def attributes(body: Iterable[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Name and word of each annotated attribute in a class's body."""
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, returned(node.annotation)


def documented(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Names that a module takes from torch's C++ side only to document them, such as `F.linear`."""
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("_add_docstr("):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def literal(name: str, comment: str, table: dict[str, str]) -> str:
    """Source text of one table: the names that share a word stand in one wrapped string."""
    rows = []
    for word in sorted(set(table.values())):
        names = " ".join(
            sorted(key for key, value in table.items() if value == word and not key.startswith("_"))
        )
        lines = "\n".join(textwrap.wrap(names, 110, break_long_words=False, break_on_hyphens=False))
        rows.append(f'    "{word}": """\n{lines}\n""",\n')
    return f"\n#: {comment}\n{name} = _by_name({{\n{''.join(rows)}}})\n"


def main() -> None:
    """Read the stubs and write the module."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise SystemExit("torch is not installed: nothing to describe")
    root = Path(spec.origin).parent
    version = importlib.metadata.version("torch").partition("+")[0]

    functions = {
        name: word
        for name, word in collect(ast.parse((root / "_C/_VariableFunctions.pyi").read_text()).body).items()
        if not name.startswith("_")
    }
    for stub in ("nn/functional.py", "nn/functional.pyi"):
        for name, word in collect(ast.parse((root / stub).read_text()).body).items():
            if word != "other" and not name.startswith("_"):
                functions[f"nn.functional.{name}"] = word
    for name in documented(ast.parse((root / "nn/functional.py").read_text()).body):
        functions.setdefault(f"nn.functional.{name}", "tensor")
    import torch  # only to list the names of namespaces that ship no stub

    for namespace in SCALAR_NAMESPACES:
        for name in dir(getattr(torch, namespace)):
            if (
                not name.startswith("_")
                and name.islower()
                and callable(getattr(getattr(torch, namespace), name))
            ):
                functions[f"{namespace}.{name}"] = "tensor"
    for name in (
        "tensor",
        "as_tensor",
        "from_numpy",
        "einsum",
        "cdist",
        "meshgrid",
        "broadcast_tensors",
        "split",
        "stft",
        "istft",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "block_diag",
        "cartesian_prod",
        "chain_matmul",
        "tensordot",
        "unique",
        "unique_consecutive",
        "norm",
        "lu",
        "unravel_index",
    ):
        several = name in {"meshgrid", "broadcast_tensors", "split", "lu", "unravel_index"}
        functions[name] = "tensors" if several else "tensor"

    tree = ast.parse((root / "_C/__init__.pyi").read_text())
    base = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "TensorBase")
    methods = collect(base.body)
    fields = {name: word for name, word in attributes(base.body) if word in ("tensor", "static")}
    fields |= dict.fromkeys(("T", "mT", "H", "mH", "grad"), "tensor")
    methods |= {
        "unflatten": "tensor",
        "split": "tensors",
        "stft": "tensor",
        "unique": "tensor|tensors",
        "unique_consecutive": "tensor|tensors",
        "norm": "tensor",
        "backward": "other",
        "register_hook": "other",
        "is_shared": "static",
        "numpy": "other",
    }
    TARGET.write_text(
        HEADER.format(version=version)
        + literal("FUNCTIONS", "By qualified name without the leading `torch.`.", functions)
        + literal("METHODS", "Methods of `torch.Tensor`.", methods)
        + literal("ATTRIBUTES", "Attributes of `torch.Tensor`.", fields)
    )


if __name__ == "__main__":
    main()
