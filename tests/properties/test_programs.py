"""Laws over generated programs: as people write them for CUDA, in any layout that parses."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tpulint.engine.cache import Cache, MemoryCache
from tpulint.engine.desk import Unit
from tpulint.engine.edits import edits_of
from tpulint.engine.fix import FixResult, fix_once, fix_units
from tpulint.engine.run import Analysis, analyse_units, as_units
from tpulint.finding import Edit, FileError, Finding
from tpulint.model.syntax.undefined import undefined_names
from tpulint.settings import Settings
from tpulint.source import Source

SETTINGS = Settings(root=Path("/project"))

NAMES = ("x", "y", "mask", "loss", "out")

#: Expressions that give, or take, a tensor; `{a}` and `{b}` are expressions again.
TENSORS = (
    "{a}.cuda()",
    "{a}.cuda(0)",
    "{a}.cuda(non_blocking=True)",
    "{a}.to('cuda')",
    '{a}.to("cuda:0", non_blocking=True)',
    "{a}.to(device)",
    "{a}.to({b}.device)",
    "{a}.float()",
    "{a}.sum()",
    "{a} + {b}",
    "{a} > {b}",
    "{a}[{b} > 0]",
    "{a}[{a} > 0].sum()",
    "{a}[{b}]",
    "-{a}",
    "({a})",
    "torch.zeros(3)",
    "torch.arange(10)",
    'torch.ones(3, device="cuda")',
    "torch.zeros(3, device=device,)",
    "torch.arange(int({a}.max()))",
    "torch.where({a}, {b}, 0)",
    "model({a})",
    "model.cuda()({a}.cuda())",
    "{a}.item()",
    "float({a})",
    "{a} if {b}.sum() > 0 else {b}",
    "[e.cuda() for e in ({a}, {b})]",
    "(lambda e: e.cuda())({a})",
    "(\n        {a}  # why\n        .cuda()\n    )",
    "torch.stack([{a}, {b}])",
    "{a}.cuda(  # here\n        0)",
    'f"{{{a}}}"',
    "torch.nn.functional.interpolate({a}[None], size=(4, 4), mode='bilinear', antialias=True)",
    "torchvision.io.read_image('a.png', torchvision.io.ImageReadMode.RGB)",
    'torch.device("cuda" if torch.cuda.is_available() else "cpu")',
)
STATEMENTS = (
    "{n} = {a}",
    "{n} = {a}; {m} = {b}",
    "{n} += {a}",
    "{n}, {m} = {a}, {b}",
    "{n}[{a} > 0] = 0",
    "torch.cuda.synchronize()",
    "if torch.cuda.is_available(): torch.cuda.synchronize()",
    "assert {a}.sum() > 0, 'why'",
    "assert ({a} > {b}).all()",
    "if {a}.sum() > 0:\n    {n} = {a}",
    "if {a}.sum() > 0:\n    {n} = {a}\nelse:\n    {n} = {b}",
    "while {a}.mean() < 1:\n    {n} = {b}",
    "for {n} in {a}:\n    {m} = {n}.cuda()",
    "with torch.no_grad():\n    {n} = {a}",
    "try: {n} = {a}\nexcept ValueError: pass",
    "print({a}.item())",
    "model = model.cuda()",
    'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
    "del {n}",
    "pass",
    "# a comment: x.cuda()",
    "'''a text\n  x.cuda()\n'''",
    "",
    "{n} = \\\n    {a}",
    "{n}: torch.Tensor = {a}",
    "global_step = 0  # é 🙂",
    "{n} = {a}  # tpulint: ignore[TPU101]",
)
WRAPPERS = (
    "@torch.compile\ndef {f}(x, y, mask):\n{body}\n    return y",
    "@torchax.interop.jax_jit\ndef {f}(x: torch.Tensor, y: torch.Tensor, mask):\n{body}\n    return y",
    """class {f}(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer('mask', torch.zeros(3))

    def forward(self, x, y):
        mask = self.mask
{deep}
        return x""",
    "def {f}(x, y, mask=None, *args):\n{body}\n    return x",
    "if __name__ == '__main__':\n{body}",
    "{flat}",
)
HEADS = (
    "import torch\nimport torch.nn as nn\nimport torchvision\nimport torchax\n",
    """'What it does.'

from __future__ import annotations

import os
import torch, torchvision
from torch import nn

import torchax.interop
""",
    "#!/usr/bin/env python\n# é\nimport torch, torchvision, torchax\nfrom torch import nn\n",
    "import torch; import torch.nn as nn\nimport torchvision, torchax\n",
)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> str:
    if depth == 0:
        return draw(st.sampled_from(NAMES))
    template = draw(st.sampled_from((*NAMES, *TENSORS)))
    if template in NAMES:
        return template
    return template.format(a=draw(expressions(depth - 1)), b=draw(expressions(depth - 1)))


@st.composite
def statements(draw: st.DrawFn) -> str:
    template = draw(st.sampled_from(STATEMENTS))
    names = {"n": draw(st.sampled_from(NAMES)), "m": draw(st.sampled_from(NAMES))}
    return template.format(a=draw(expressions()), b=draw(expressions()), **names)


@st.composite
def definitions(draw: st.DrawFn, number: int) -> str:
    body = "\n".join([*draw(st.lists(statements(), min_size=1, max_size=5)), "pass"])
    template = draw(st.sampled_from(WRAPPERS))
    return template.format(
        f=f"Part{number}",
        flat=body,
        body=textwrap.indent(body, "    "),
        deep=textwrap.indent(body, "        "),
    )


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A program that parses."""
    count = draw(st.integers(1, 4))
    parts = [
        draw(st.sampled_from(HEADS)),
        "model = nn.Linear(3, 3)",
        "x = y = mask = loss = out = torch.zeros(3)",
    ]
    parts.append('device = torch.device("cuda" if torch.cuda.is_available() else "cpu")')
    parts += [draw(definitions(number)) for number in range(count)]
    text = "\n".join(parts) + draw(st.sampled_from(("\n", "", "\n\n")))
    if draw(st.booleans()):
        text = text.replace("\n    ", "\n\t").replace("\t    ", "\t\t")
    try:
        ast.parse(text)
    except SyntaxError:
        # An f-string in an f-string, an assignment to what cannot be assigned to.
        text = "import torch\n\nx = torch.zeros(3).cuda()\n"
    newline = draw(st.sampled_from(("\n", "\n", "\r\n", "\r")))
    return text.replace("\n", newline)


# laws


def units(*texts: str) -> dict[str, Unit]:
    return as_units({f"/project/m{n}.py": text.encode() for n, text in enumerate(texts)})


def check(files: Mapping[str, Unit], jobs: int = 1, cache: Cache | None = None) -> Analysis:
    return analyse_units(files, SETTINGS, jobs=jobs, cache=cache)


def fix(files: Mapping[str, Unit], *, unsafe: bool, jobs: int = 1) -> FixResult:
    return fix_units(files, SETTINGS, jobs=jobs, cache=MemoryCache(), unsafe=unsafe)


def fixed(files: Mapping[str, Unit], result: FixResult) -> dict[str, Unit]:
    """The files as they are then, without those that come with them."""
    own = [change for change in result.changes if change.path in files]
    return {**files, **{change.path: replace(files[change.path], data=change.data) for change in own}}


def edits(text: str, findings: list[Finding]) -> list[Edit]:
    """The edits of all fixes, each by itself."""
    contents = {finding.path: text.encode() for finding in findings}
    return [edit for made in edits_of(findings, contents).values() for edit in made]


def lines(text: str) -> list[str]:
    return re.split(r"\r\n|\r|\n", text)


@given(programs())
@settings(max_examples=120)
def test_locations_of_findings_are_within_the_text(text: str) -> None:
    analysis = check(units(text))
    assert [] == analysis.errors
    rows, source = lines(text), Source("", text)
    for finding in analysis.findings:
        start, end = finding.location, finding.end_location
        assert rows[start.row - 1] == finding.source_line
        assert 1 <= start.column <= len(rows[start.row - 1]) + 1
        assert 1 <= end.column <= len(rows[end.row - 1]) + 1
        assert start <= end
        assert (start, end) == (source.location(finding.span.start), source.location(finding.span.end))
        for step in finding.related:
            assert step.location.row <= len(rows)
    for edit in edits(text, analysis.findings):
        assert (edit.location, edit.end_location) == (
            source.location(edit.span.start),
            source.location(edit.span.end),
        )
    assert sorted(analysis.findings, key=lambda finding: finding.sort_key) == analysis.findings


#: A program whose fix comes with files of its own.
EVALUATED = """\
import torch
import torch.nn as nn

model = nn.Linear(3, 3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def f(x):
    while x.mean() < 1:
        x = model(x)
    return x
"""


@given(text=programs(), unsafe=st.booleans())
@example(text=EVALUATED, unsafe=True)
@settings(max_examples=150)
def test_fixes_give_valid_code_and_converge(text: str, unsafe: bool) -> None:
    files = units(text)
    result = fix(files, unsafe=unsafe)
    assert [] == result.errors
    after = fixed(files, result)
    (unit,) = after.values()
    ast.parse(unit.data.decode())
    assert undefined_names(unit.data.decode()) <= undefined_names(text)
    again = fix(after, unsafe=unsafe)
    assert ([], [], {}) == (again.changes, again.errors, again.applied)
    alone = check(after).findings
    assert alone == again.remaining
    wanted = ("safe", "unsafe") if unsafe else ("safe",)
    assert [] == [f for f in result.remaining if f.fix is not None and f.fix.applicability in wanted]


def rounds(text: str, *, unsafe: bool) -> Iterator[tuple[str, list[Finding]]]:
    """The texts that fixing goes through, each with what is found in it, to the one in which all is fixed."""
    wanted = ("safe", "unsafe") if unsafe else ("safe",)
    (unit,) = units(text).values()
    while True:
        findings = check({unit.path: unit}).findings
        yield Source.decode(unit.path, unit.data).text, findings
        outcome = fix_once(unit, [f for f in findings if f.fix is not None and f.fix.applicability in wanted])
        if outcome is None:
            return
        assert not isinstance(outcome, FileError)
        unit = outcome[0]


def _code(text: str) -> Counter[str]:
    """The lines of a text but for imports, in the layout of `ast`."""
    return Counter(line for line in lines(ast.unparse(ast.parse(text))) if "import" not in line)


@given(programs(), st.booleans())
@settings(max_examples=80)
def test_lines_without_findings_are_unchanged(text: str, unsafe: bool) -> None:
    # What a value is may be clear only once other lines are fixed: each round has findings of its own.
    course = list(rounds(text, unsafe=unsafe))
    for (before, findings), (now, _) in pairwise(course):
        places = [(finding.location, finding.end_location) for finding in findings]
        places += [(edit.location, edit.end_location) for edit in edits(before, findings)]
        touched = {row for start, end in places for row in range(start.row, end.row + 1)}
        kept = Counter(line for row, line in enumerate(lines(before), 1) if row not in touched)
        assert Counter() == kept - Counter(lines(now))
    result = fix(units(text), unsafe=unsafe)
    after = next((change.after for change in result.changes if change.before == text), text)
    # At the end, fixed files are tidied: lines are split, and what has lost its use goes.
    assert Counter() == _code(after) - _code(course[-1][0])
    comments = [line for line in lines(text) if line.lstrip().startswith("#") and "x.cuda" in line]
    assert Counter() == Counter(comments) - Counter(lines(after))


@given(st.lists(programs(), min_size=2, max_size=4))
@settings(max_examples=12)
def test_results_do_not_depend_on_the_number_of_processes(texts: list[str]) -> None:
    files = units(*texts)
    assert check(files, jobs=1) == check(files, jobs=2)
    assert fix(files, unsafe=True, jobs=1) == fix(files, unsafe=True, jobs=2)


@given(st.lists(programs(), min_size=1, max_size=3), st.data())
@settings(max_examples=40)
def test_findings_with_and_without_a_cache_are_equal(texts: list[str], data: st.DataObject) -> None:
    cache = MemoryCache()
    before = units(*texts)
    assert check(before) == check(before, cache=cache) == check(before, cache=cache)
    number = data.draw(st.integers(0, len(texts) - 1))
    changed = units(*[data.draw(programs()) if n == number else text for n, text in enumerate(texts)])
    assert check(changed) == check(changed, cache=cache)


@given(programs(), st.integers(0, 10_000), st.text(max_size=4))
@settings(max_examples=80)
def test_broken_programs_cause_no_internal_error(text: str, place: int, rubbish: str) -> None:
    place %= len(text) + 1
    data = (text[:place] + rubbish + text[place:]).encode(errors="surrogatepass")
    files = as_units({"/project/m.py": data})
    result = fix(files, unsafe=True)
    assert [] == [error for error in result.errors if "internal error" in error.message]
    assert result.changes or result.remaining == check(files).findings


@given(st.binary(max_size=60))
@settings(max_examples=150)
def test_any_bytes_are_an_error_a_finding_or_clean(data: bytes) -> None:
    files = as_units({"/project/m.py": data})
    analysis = check(files)
    assert len(analysis.errors) + len({f.code for f in analysis.findings}) <= 1
    assert [] == fix(files, unsafe=True).changes
