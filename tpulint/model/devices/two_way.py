"""Programs that run on CUDA where there is CUDA, and on torchax elsewhere: their code, and fixes to it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tpulint.finding import Applicability, Edit, Finding, Fix, Span
from tpulint.knowledge.runtime import PACKAGE
from tpulint.model.syntax.imports import end_of_imports, insertions, missing_imports

if TYPE_CHECKING:
    from tpulint.model.project.project_file import ProjectFile

ASKED = "torch.cuda.is_available()"
_JAX_PACKAGES = ("jax", "torchax", PACKAGE)
_JAX = re.compile(r"\b(jax|torchax\w*)\b")
_CUDA = re.compile(
    r"cuda|cudnn|nccl|nvtx|autocast|GradScaler|DataParallel|torch\.compile|triton", re.IGNORECASE
)
_ONLY_CUDA = re.compile(
    r"torch\.cuda\.|cudnn|nccl|nvtx|autocast|GradScaler|DataParallel|torch\.compile|triton"
)
#: The last names of calls that put something on a device, or seed its random numbers.
_NEEDS_TORCHAX = ("to", "cuda", "device", "set_default_device", "manual_seed", "manual_seed_all")
_IMPORT = re.compile(r"\s*((import|from) [^\n]*\s*)+\Z")
_Nodes = Sequence[ast.stmt | ast.expr]
_SIMPLE = ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign
_TITLE = "{} (not applied, because `keep-gpu` is set and this fix would change the program on CUDA)"


def apart(module: ProjectFile) -> Iterator[Span]:
    """The code that only CUDA reaches, with the condition for it, where other code serves torchax instead.

    In a program that is to be kept running on CUDA, all code that only CUDA reaches, and the condition where
    that code can be for nothing else.
    """
    kept = module.project.keeps_gpu
    for test, cuda, other in _choices(module):
        served = any(_is_jax(part) for root in other for part in ast.walk(root))
        if served or (kept and any(_ONLY_CUDA.search(ast.unparse(root)) for root in cuda)):
            yield module.source.span(test)
        if served or kept:
            for root in cuda:
                yield module.source.span(root)


def _choices(module: ProjectFile) -> Iterator[tuple[ast.expr, _Nodes, _Nodes]]:
    """The conditions that ask for CUDA, each with what is reached with CUDA alone, and without it alone."""
    for kind in (ast.If, ast.IfExp):
        for node, scope in module.index.nodes[kind]:
            assert isinstance(node, ast.If | ast.IfExp)
            negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
            test = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
            if not isinstance(test, ast.Call):
                continue
            if module.names.qualified(test.func, scope) == "torch.cuda.is_available":
                body, orelse = _nodes(node.body), _nodes(node.orelse)
                yield test, *((orelse, body) if negated else (body, orelse))


def _nodes(part: list[ast.stmt] | ast.expr) -> _Nodes:
    return part if isinstance(part, list) else [part]


def _is_jax(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str() as text) | ast.Name(id=text):
            return text in _JAX_PACKAGES
        case ast.Import(names=names):
            return any(alias.name.partition(".")[0] in _JAX_PACKAGES for alias in names)
        case ast.ImportFrom(module=str() as text):
            return text.partition(".")[0] in _JAX_PACKAGES
    return False


def two_way(module: ProjectFile, finding: Finding) -> Fix | None:
    """A finding's fix in a form that leaves CUDA what it had; shown only where there is no such form."""
    fix, text = finding.fix, module.source.text
    if fix is None or fix.serves_cuda:
        return fix
    if any(ASKED in edit.content or _joins_guard(module, edit) for edit in fix.edits):
        return fix
    if not any(_is_one_way(text, edit) for edit in fix.edits):
        return fix
    imports = [edit for edit in fix.edits if edit.span.start == edit.span.end and _IMPORT.match(edit.content)]
    edits = None
    torch = missing_imports(module, ("import torch",), module.index.module)
    if torch is not None:
        edits = [edit for edit in fix.edits if edit not in imports]
        is_beside = _is_without_cuda(module, edits)
        edits = edits if is_beside else _kept(module, edits)
        edits = edits if edits is not None else _entered(module, finding.span)
    if edits is None or torch is None:
        return replace(fix, title=_TITLE.format(fix.title), applicability=Applicability.DISPLAY)
    guarded = [
        guarded_import(module, edit.content) if _JAX.search(edit.content) else edit for edit in imports
    ]
    added = [_edit(module, Span(at, at), line) for at, line in insertions(module, torch).items()]
    title = fix.title if is_beside else f"{fix.title}, except where CUDA is available"
    return replace(fix, title=title, edits=tuple(sorted({*edits, *guarded, *added})))


def _is_without_cuda(module: ProjectFile, edits: list[Edit]) -> bool:
    """Whether edits are of code that CUDA does not reach."""
    others = [module.source.span(root) for _, _, other in _choices(module) for root in other]
    return all(any(s.start <= e.span.start and e.span.end <= s.end for s in others) for e in edits)


def _entered(module: ProjectFile, span: Span) -> list[Edit] | None:
    """A context that is entered with CUDA alone, for a fix that would take it out."""
    contextlib = missing_imports(module, ("import contextlib",), module.index.module)
    if contextlib is None or not any(
        isinstance(outer, ast.withitem) for _, outer in _expressions(module, span)
    ):
        return None
    code = f"{module.source.text[span.start : span.end]} if {ASKED} else contextlib.nullcontext()"
    added = [_edit(module, Span(at, at), line) for at, line in insertions(module, contextlib).items()]
    return [_edit(module, span, code), *added]


def _is_one_way(text: str, edit: Edit) -> bool:
    """Whether an edit puts in what is torchax's alone, or takes out what is CUDA's."""
    lost = _CUDA.search(text[edit.span.start : edit.span.end]) is not None
    return _JAX.search(edit.content) is not None or (lost and "accelerator" not in edit.content)


def guarded_import(module: ProjectFile, statements: str) -> Edit:
    """The edit that puts imports, and what follows from them, behind the others, where there is no CUDA."""
    source, newline = module.source, module.source.newline
    lines = [line for line in statements.splitlines() if line.strip()]
    guard = _guard(module)
    if guard is not None:
        row = guard.end_lineno or guard.lineno
        end = source.line_starts[row] if row < len(source.line_starts) else len(source.text)
        return _edit(module, Span(end, end), "".join(f"{source.indent}{line}{newline}" for line in lines))
    end = _end_of_imports(module)
    body = newline.join([f"if not {ASKED}:", *(f"{source.indent}{line}" for line in lines)])
    return _edit(module, Span(end, end), f"{newline}{body}{newline}")


def _end_of_imports(module: ProjectFile) -> int:
    """Offset below the imports that stand above whatever may need torchax."""
    needs = (place for name in _NEEDS_TORCHAX for place in module.index.calls.get(name, ()))
    rows = (getattr(call, "lineno", 0) for call, scope in needs if scope is module.index.module)
    return end_of_imports(module, min(rows, default=None))


def _joins_guard(module: ProjectFile, edit: Edit) -> bool:
    guard = _guard(module)
    if guard is None or edit.location.row != (guard.end_lineno or 0) + 1:
        return False
    return edit.content.startswith(module.source.indent)


def _guard(module: ProjectFile) -> ast.If | None:
    """The statement behind a file's imports that imports what only torchax needs."""
    source, end = module.source, _end_of_imports(module)
    first = next((node for node in source.tree.body if source.span(node).start >= end), None)
    guards = isinstance(first, ast.If) and not first.orelse and ast.unparse(first.test) == f"not {ASKED}"
    return first if guards and isinstance(first, ast.If) else None


def _kept(module: ProjectFile, edits: list[Edit]) -> list[Edit] | None:
    """Edits whose code stands beside the one that was there, chosen by whether there is CUDA."""
    if len(edits) == 1:
        edit = edits[0]
        if edit.span.start == edit.span.end:
            return _added(module, edit)
        for node, outer in _expressions(module, edit.span):
            if isinstance(node, ast.expr) and not isinstance(outer, ast.Expr):
                return [_chosen(module, node, outer, edit)]
    statement = _around(module, edits)
    return [_split(module, statement, edits)] if statement is not None else None


def _expressions(module: ProjectFile, span: Span) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The expression that a span is, if it is one, with what stands around it."""
    source = module.source
    for outer in ast.walk(source.tree):
        for child in ast.iter_child_nodes(outer):
            if isinstance(child, ast.expr) and source.span(child) == span:
                yield child, outer


def _chosen(module: ProjectFile, node: ast.expr, outer: ast.AST, edit: Edit) -> Edit:
    text = module.source.text
    old = text[edit.span.start : edit.span.end]
    if isinstance(node, ast.IfExp) and ast.unparse(node.test) == ASKED:
        old = ast.get_source_segment(text, node.body) or ast.unparse(node.body)
    elif isinstance(node, ast.IfExp | ast.Lambda):
        old = f"({old})"
    code = f"{old} if {ASKED} else {edit.content}"
    loose = isinstance(
        outer, ast.Call | ast.keyword | ast.Assign | ast.AnnAssign | ast.Return | ast.arguments
    )
    callee = isinstance(outer, ast.Call) and outer.func is node
    return replace(edit, content=code if loose and not callee else f"({code})")


def _added(module: ProjectFile, edit: Edit) -> list[Edit] | None:
    """Whole lines that are put in become those of a branch."""
    source = module.source
    lines = edit.content.strip("\r\n").splitlines()
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())] if lines else ""
    before = source.text[source.line_starts[edit.location.row - 1] : edit.span.start]
    if not edit.content.startswith(("\n", "\r")) and before.strip():
        return None
    if lines and lines[-1].lstrip().startswith("@"):  # what follows it is not put in
        return None
    at_start = not edit.content.startswith(("\n", "\r")) and before
    body = source.newline.join(f"{source.indent}{line}" if line.strip() else line for line in lines)
    if at_start:
        body = f"{before}{body}"
    guarded = f"{'' if at_start else indent}if not {ASKED}:{source.newline}{body}"
    head, tail = edit.content.partition(lines[0])[0], edit.content[len(edit.content.rstrip("\r\n")) :]
    return [replace(edit, content=f"{head}{guarded}{tail}")]


def _around(module: ProjectFile, edits: list[Edit]) -> ast.stmt | None:
    """The statement, alone on its lines, that an edit replaces, or the simple one that edits lie within."""
    source = module.source
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.stmt) or not (
            isinstance(node, _SIMPLE) or _is_whole(module, node, edits)
        ):
            continue
        start = source.line_starts[node.lineno - 1]
        row = node.end_lineno or node.lineno
        end = source.line_starts[row] if row < len(source.line_starts) else len(source.text)
        alone = ";" not in source.text[start:end] and not source.text[start : source.span(node).start].strip()
        if alone and all(start <= edit.span.start and edit.span.end <= end for edit in edits):
            return node
    return None


def _is_whole(module: ProjectFile, statement: ast.stmt, edits: list[Edit]) -> bool:
    """Whether an edit replaces a whole statement that may go a level deeper, which a long string may not."""
    if not isinstance(statement, ast.If | ast.With) or [edit.span for edit in edits] != [
        module.source.span(statement)
    ]:
        return False
    strings = (node for node in ast.walk(statement) if isinstance(node, ast.Constant | ast.JoinedStr))
    return all(node.lineno == node.end_lineno for node in strings)


def _split(module: ProjectFile, statement: ast.stmt, edits: list[Edit]) -> Edit:
    source = module.source
    span = source.span(statement)
    indent = source.ahead_of(statement)
    old = source.text[span.start : span.end]
    new = old
    for edit in sorted(edits, reverse=True):
        first, last = max(edit.span.start - span.start, 0), min(edit.span.end, span.end) - span.start
        new = new[:first] + edit.content + new[last:]
    new = new.strip()
    newline, step = source.newline, source.indent
    code = f"if {ASKED}:{newline}{indent}{step}{_deeper(old, newline, step)}"
    if isinstance(statement, ast.If) and ast.unparse(statement.test) == ASKED:
        code = source.text[span.start : source.span(statement.body[-1]).end]
    if new and new != "pass":
        code += f"{newline}{indent}else:{newline}{indent}{step}{_deeper(new, newline, step)}"
    return _edit(module, span, code)


def _deeper(code: str, newline: str, step: str) -> str:
    return f"{newline}{step}".join(code.splitlines())


def _edit(module: ProjectFile, span: Span, content: str) -> Edit:
    source = module.source
    return Edit(span, content, source.location(span.start), source.location(span.end))
