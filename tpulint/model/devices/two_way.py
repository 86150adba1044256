"""Programs that run on CUDA where there is CUDA, and on torchax elsewhere: their code, and fixes to it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tpulint.finding import Applicability, Finding, Fix, Span
from tpulint.knowledge.runtime import PACKAGE
from tpulint.model.syntax.imports import missing_imports
from tpulint.model.syntax.rewritten import text_lost
from tpulint.plan import INSERTS, Import, Kind, NodePath, Rewrite, node_at, path_of

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
    fix = finding.fix
    if fix is None or fix.serves_cuda:
        return fix
    written = [*(code for one in fix.rewrites for code in one.code), *(one.condition for one in fix.imports)]
    if any(ASKED in code for code in written):
        return fix
    one_way = [one for one in fix.rewrites if _is_one_way(module, one)]
    if not one_way and not any(_JAX.search(one.statement) for one in fix.imports):
        return fix
    rewrites: list[Rewrite] | None = None
    added: list[Import] = []
    is_beside = all(_is_without_cuda(module, one) for one in fix.rewrites)
    torch = missing_imports(module, ("import torch",), module.index.module)
    if torch is not None:
        added = list(map(Import, torch))
        rewrites = list(fix.rewrites) if is_beside else _kept(module, fix.rewrites)
        if rewrites is None:
            rewrites, contextlib = _entered(module, finding.span)
            added += contextlib
    if not rewrites and (torch is None or fix.rewrites):
        return replace(fix, title=_TITLE.format(fix.title), applicability=Applicability.DISPLAY)
    imports = [only_without_cuda(module, one) if _JAX.search(one.statement) else one for one in fix.imports]
    title = fix.title if is_beside else f"{fix.title}, except where CUDA is available"
    return replace(
        fix, title=title, rewrites=tuple(rewrites or ()), imports=tuple(dict.fromkeys((*imports, *added)))
    )


def only_without_cuda(module: ProjectFile, one: Import) -> Import:
    """An import behind the others, where there is no CUDA, above whatever may need torchax."""
    needs = (place for name in _NEEDS_TORCHAX for place in module.index.calls.get(name, ()))
    rows = [getattr(call, "lineno", 0) for call, scope in needs if scope is module.index.module]
    body = module.source.tree.body
    ahead_of = next((i for i, s in enumerate(body) if rows and (s.end_lineno or 0) >= min(rows)), None)
    return Import(one.statement, f"not {ASKED}", ahead_of)


def _is_without_cuda(module: ProjectFile, rewrite: Rewrite) -> bool:
    """Whether a rewrite is of code that CUDA does not reach."""
    nodes = list(module.nodes_on(rewrite.path))
    return any(node is root for _, _, other in _choices(module) for root in other for node in nodes)


def _entered(module: ProjectFile, span: Span) -> tuple[list[Rewrite] | None, list[Import]]:
    """A context that is entered with CUDA alone, for a fix that would take it out, and what it needs."""
    contextlib = missing_imports(module, ("import contextlib",), module.index.module)
    for node, outer in _expressions(module, span) if contextlib is not None else ():
        if isinstance(outer, ast.withitem):
            code = f"{_text(module, node)} if {ASKED} else contextlib.nullcontext()"
            path = path_of(node, module.parent)
            return [Rewrite(path, Kind.REPLACE, (code,))], list(map(Import, contextlib or ()))
    return None, []


def _expressions(module: ProjectFile, span: Span) -> Iterator[tuple[ast.expr, ast.AST]]:
    """The expression that a span is, if it is one, with what stands around it."""
    source = module.source
    for outer in ast.walk(source.tree):
        for child in ast.iter_child_nodes(outer):
            if isinstance(child, ast.expr) and source.span(child) == span:
                yield child, outer


def _is_one_way(module: ProjectFile, rewrite: Rewrite) -> bool:
    """Whether a rewrite puts in what is torchax's alone, or takes out what is CUDA's."""
    code = "".join(rewrite.code)
    lost = _CUDA.search(text_lost(module.source, rewrite)) is not None
    return _JAX.search(code) is not None or (lost and "accelerator" not in code)


def _kept(module: ProjectFile, rewrites: tuple[Rewrite, ...]) -> list[Rewrite] | None:
    """Rewrites whose code stands beside the one that was there, chosen by whether there is CUDA."""
    if len(rewrites) == 1:
        [rewrite] = rewrites
        if rewrite.kind in INSERTS:
            return _conditional(module, rewrite)
    root = min((one.path for one in rewrites), key=len)
    node = node_at(module.source.tree, root)
    outer = module.parent(node)
    is_one = all(one.path[: len(root)] == root for one in rewrites)
    if is_one and isinstance(node, ast.expr) and not isinstance(outer, ast.Expr):
        return [*rewrites, _chosen(node, outer, root)]
    statement = _around(module, rewrites)
    if statement is None:
        return None
    return [*rewrites, Rewrite(path_of(statement, module.parent), Kind.KEEP_IF, (ASKED,))]


def _conditional(module: ProjectFile, rewrite: Rewrite) -> list[Rewrite] | None:
    """Statements that are put in become those of a branch, where they have lines of their own."""
    source = module.source
    node = node_at(source.tree, rewrite.path)
    if not isinstance(node, ast.stmt) or source.shares_row(node):
        return None
    margin = source.margin(node)
    lines = rewrite.code[0].splitlines()
    body = [f"{source.indent}{line}" if line.strip() else line for line in lines]
    body[0] = f"{margin}{body[0]}"
    return [replace(rewrite, code=(source.newline.join([f"if not {ASKED}:", *body]), *rewrite.code[1:]))]


def _chosen(node: ast.expr, outer: ast.AST | None, path: NodePath) -> Rewrite:
    """The rewrite that leaves an expression as it is where there is CUDA."""
    loose = isinstance(
        outer, ast.Call | ast.keyword | ast.Assign | ast.AnnAssign | ast.Return | ast.arguments
    )
    callee = isinstance(outer, ast.Call) and outer.func is node
    return Rewrite(path, Kind.KEEP_IF, (ASKED,) if loose and not callee else (ASKED, "grouped"))


def _around(module: ProjectFile, rewrites: tuple[Rewrite, ...]) -> ast.stmt | None:
    """The statement, alone on its lines, that rewrites are within; if it is not simple, that one replaces."""
    found: set[int] = set()
    last: ast.stmt | None = None
    for rewrite in rewrites:
        if rewrite.kind in INSERTS:
            return None
        statements = [node for node in module.nodes_on(rewrite.path) if isinstance(node, ast.stmt)]
        if not statements:
            return None
        last = statements[-1]
        found.add(id(last))
    if last is None or len(found) > 1 or module.source.shares_row(last):
        return None
    is_whole = any(
        module_node is last for module_node in (node_at(module.source.tree, one.path) for one in rewrites)
    )
    if isinstance(last, _SIMPLE) or (is_whole and isinstance(last, ast.If | ast.With)):
        return last
    return None


def _text(module: ProjectFile, node: ast.expr) -> str:
    span = module.source.span(node)
    return module.source.text[span.start : span.end]
