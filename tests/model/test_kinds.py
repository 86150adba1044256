"""What the model says of values, told by `# reveal: KIND` behind the assignments in data/*.txt.

They are Python under study, not code of ours, so they do not bear the ending of that.

Unknown  Static  Static[3]  Data  Array  Device[cuda]  Instance[torch.nn.Linear]
Tensor  Tensor?                (for certain; perhaps something else)
Tensor[bool, scalar, host, of x]   (dtype; no dimensions; made on the host; of the shape of x)
(Tensor, Static)               (a tuple or list of known length)
[Tensor]                       (any number of them)
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

from tpulint.engine.run import as_units
from tpulint.model.module import Module
from tpulint.model.tracing.reach import link
from tpulint.model.values.kinds import Array, Data, Device, Instance, Kind, Several, Static, Tensor
from tpulint.source import Source

#: What is known to be wrong; a row that is right now belongs into one of the other files.
OPEN = Path(__file__).parent / "data" / "too_bold.txt"
DATA = sorted(set(OPEN.parent.glob("*.txt")) - {OPEN})


def spelled(kind: Kind) -> str:
    """A kind as the comments write it."""
    match kind:
        case Tensor():
            details = [kind.dtype, "scalar" if kind.scalar else "", "host" if kind.is_host else ""]
            details.append(f"of {kind.root.partition('@')[0]}" if kind.root else "")
            told = ", ".join(filter(None, details))
            return "Tensor" + ("" if kind.certain else "?") + (f"[{told}]" if told else "")
        case Static(value=value):
            return "Static" if value is ... else f"Static[{value!r}]"
        case Data() | Array():
            return type(kind).__name__
        case Device(type=name):
            return f"Device[{name}]" if name else "Device"
        case Instance(cls=cls):
            return f"Instance[{cls}]"
        case Several(items=None):
            return f"[{spelled(kind.element)}]"
        case Several(items=items):
            return f"({', '.join(map(spelled, items or ()))})"
        case _:
            return "Unknown"


def wanted(text: str) -> dict[int, str]:
    """Row and spelling of each comment."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [
        (t.start[0], re.search(r"#\s*reveal:\s*(.*\S)", t.string))
        for t in tokens
        if t.type == tokenize.COMMENT
    ]
    return {row: match[1] for row, match in comments if match is not None}


def revealed(path: str, text: str) -> dict[int, str]:
    """Row and spelling of every assigned value."""
    (unit,) = as_units({path.removesuffix(".txt") + ".py": text.encode()}).values()
    module = Module(Source.decode(unit.path, unit.data), unit.module_path)
    module.enter(link([module.facts()]))
    told: dict[int, str] = {}
    for scope in (module.index.module, *module.index.functions):
        body = scope.node.body if isinstance(scope.node, ast.Module | ast.FunctionDef) else []
        for node in statements(body if isinstance(body, list) else []):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
                told[node.lineno] = spelled(module.kind(node.value, scope))
    return told


def statements(body: list[ast.stmt]) -> list[ast.stmt]:
    found = []
    for node in body:
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.stmt):
                    found += statements([child])
                elif isinstance(child, ast.ExceptHandler | ast.match_case):
                    found += statements(child.body)
    return found


def differences(path: Path) -> dict[int, str]:
    """The rows where the model says something else than the comment, with both."""
    text = path.read_text()
    told, lines = revealed(str(path), text), text.splitlines()
    assert wanted(text), "nothing is revealed"
    return {
        row: f"{lines[row - 1].split('#')[0].strip()}  -> {told.get(row)}, not {kind}"
        for row, kind in wanted(text).items()
        if told.get(row) != kind
    }


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_inferred_types_match_the_comments(path: Path) -> None:
    assert {} == differences(path)


@pytest.mark.parametrize("row", wanted(OPEN.read_text()))
def test_known_wrong_tensor_inferences(row: int, request: pytest.FixtureRequest) -> None:
    request.applymarker(pytest.mark.xfail(strict=False, reason="a value poses as a tensor"))
    assert row not in differences(OPEN)
