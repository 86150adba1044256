"""Fixes that leave a program what it does where there is CUDA."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tpulint.finding import Applicability, Edit, Finding, Fix, Span
from tpulint.fixes import apply
from tpulint.model.devices.two_way import apart, guarded_import, two_way
from tpulint.model.module import Module

Parse = Callable[[str], Module]
#: What is replaced, and by what; text after `|` is inserted behind what is before it.
Replacement = tuple[str, str]

ENABLE = "import torchax\n\ntorchax.enable_globally()\n"


def edit(module: Module, old: str, new: str) -> Edit:
    """The edit that replaces a part of the text, or inserts behind it where `new` begins with `|`."""
    start = module.source.text.index(old)
    span = Span(start, start + len(old))
    if new.startswith("|"):
        span, new = Span(span.end, span.end), new[1:]
    return Edit(span, new, module.source.location(span.start), module.source.location(span.end))


def finding(module: Module, fix: Fix | None, at: str) -> Finding:
    start = module.source.text.index(at)
    found = module.source.location(start)
    return Finding("app.py", found, found, "TPU000", "name", "text", Span(start, start + len(at)), "", fix)


def converted(module: Module, *replacements: Replacement, at: str = "") -> str:
    """The text with the fix applied in its form for both devices; "(shown)" if it has none."""
    fix = Fix("change", tuple(edit(module, *one) for one in replacements), Applicability.SAFE)
    kept = two_way(module, finding(module, fix, at))
    assert kept is not None
    if kept.applicability is Applicability.DISPLAY:
        return "(shown)"
    return apply(module.source.text, [kept])[0]


@pytest.mark.parametrize(
    ("before", "replacement", "after"),
    [
        (
            'd = "cuda"',
            ('"cuda"', '"jax"'),
            'd = "cuda" if torch.cuda.is_available() else "jax"',
        ),
        (
            'x = y.to("cuda").sum()',
            ('"cuda"', '"jax"'),
            'x = y.to("cuda" if torch.cuda.is_available() else "jax").sum()',
        ),
        (
            "x = y.cuda().sum()",
            ("y.cuda()", 'y.to("jax")'),
            'x = (y.cuda() if torch.cuda.is_available() else y.to("jax")).sum()',
        ),
        (
            "x = y.cuda()",
            ("y.cuda", "y.jax"),
            "x = (y.cuda if torch.cuda.is_available() else y.jax)()",
        ),
        (
            'd = "cuda" if torch.cuda.is_available() else "cpu"',
            ('"cuda" if torch.cuda.is_available() else "cpu"', '"jax"'),
            'd = "cuda" if torch.cuda.is_available() else "jax"',
        ),
        (
            'd = "cuda" if big else "cpu"',
            ('"cuda" if big else "cpu"', '"jax"'),
            'd = ("cuda" if big else "cpu") if torch.cuda.is_available() else "jax"',
        ),
        (
            "    torch.cuda.empty_cache()",
            ("torch.cuda.empty_cache()", "pass"),
            "    if torch.cuda.is_available():\n        torch.cuda.empty_cache()",
        ),
        (
            "    x = y.cuda(z).half()",
            ("x = y.cuda(z).half()", 'x = y.to("jax")'),
            (
                "    if torch.cuda.is_available():\n"
                "        x = y.cuda(z).half()\n"
                "    else:\n"
                '        x = y.to("jax")'
            ),
        ),
    ],
)
def test_code_for_cuda_stays_beside_the_new_code(
    parse: Parse, before: str, replacement: Replacement, after: str
) -> None:
    head = "import torch\ndef f(y, z, big):\n" if before.startswith(" ") else "import torch\n"
    assert f"{head}{after}\n" == converted(parse(f"{head}{before}\n"), replacement)


def test_an_if_that_asks_for_cuda_gets_another_branch(parse: Parse) -> None:
    text = "import torch\nif torch.cuda.is_available():\n    x = x.cuda()\n"
    expected = f"{text}else:\n    x = x.to('jax')\n"
    block = "if torch.cuda.is_available():\n    x = x.cuda()"
    assert expected == converted(parse(text), (block, "x = x.to('jax')"))


def test_a_with_block_is_kept_as_a_branch(parse: Parse) -> None:
    block = "with torch.cuda.stream(s):\n    f()"
    expected = (
        "import torch\nif torch.cuda.is_available():\n"
        "    with torch.cuda.stream(s):\n        f()\n"
        "else:\n    f()\n"
    )
    assert expected == converted(parse(f"import torch\n{block}\n"), (block, "f()"))


def test_several_edits_of_one_statement_are_one_branch(parse: Parse) -> None:
    expected = (
        "import torch\nif torch.cuda.is_available():\n    a, b = x.cuda(), y.cuda()\n"
        "else:\n    a, b = x.jax(), y.jax()\n"
    )
    module = parse("import torch\na, b = x.cuda(), y.cuda()\n")
    assert expected == converted(module, ("x.cuda", "x.jax"), ("y.cuda", "y.jax"))


@pytest.mark.parametrize(
    "text",
    [
        'import torch\nx = y.cuda(); z = "cuda"\n',  # two statements on one line
        "import torch\nwith torch.cuda.stream(s):\n    f('''a\nb''')\n",  # a string would change its text
        "torch = 1\nx = y.cuda(); z = 1\n",
    ],
)
def test_a_fix_without_a_form_for_both_is_only_shown(parse: Parse, text: str) -> None:
    module = parse(text)
    whole = text.rstrip("\n").partition("\n")[2]
    assert "(shown)" == converted(module, (whole, "pass"))


def test_a_fix_is_only_shown_where_torch_means_something_else(parse: Parse) -> None:
    assert "(shown)" == converted(parse("torch = 1\nx = y.cuda()\n"), ("y.cuda()", "y.to('jax')"))


def test_torch_is_imported_for_the_condition(parse: Parse) -> None:
    expected = "import torch\nd = 'cuda' if torch.cuda.is_available() else 'jax'\n"
    assert expected == converted(parse("d = 'cuda'\n"), ("'cuda'", "'jax'"))


@pytest.mark.parametrize(
    ("before", "replacement"),
    [
        ("x = y.view(-1)", ("view", "reshape")),
        ("x = torch.cuda.device_count()", ("torch.cuda.device_count()", "torch.accelerator.device_count()")),
        ("x = 1", ("1", "1 if torch.cuda.is_available() else 'jax'")),
        ("if not torch.cuda.is_available():\n    x = 'cuda'", ("'cuda'", "'jax'")),
        ("x = 'jax' if not torch.cuda.is_available() else 3", ("'jax'", "'jax:0'")),
    ],
)
def test_a_fix_that_takes_nothing_from_cuda_stays_as_it_is(
    parse: Parse, before: str, replacement: Replacement
) -> None:
    text = f"import torch\n{before}\n"
    assert text.replace(*replacement, 1) == converted(parse(text), replacement)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1\n", "x = 1\nif not torch.cuda.is_available():\n    model = model.to('jax')\n"),
        (
            "def f():\n    x = 1\n",
            "def f():\n    x = 1\n    if not torch.cuda.is_available():\n        model = model.to('jax')\n",
        ),
    ],
)
def test_inserted_lines_run_without_cuda_alone(parse: Parse, before: str, after: str) -> None:
    indent = "    " if before.startswith("def") else ""
    module = parse(f"import torch\n{before}")
    assert f"import torch\n{after}" == converted(module, ("x = 1\n", f"|{indent}model = model.to('jax')\n"))


def test_a_line_inserted_in_front_of_a_statement_runs_without_cuda_alone(parse: Parse) -> None:
    module = parse("import torch\ndef f():\n    x = 1\n")
    expected = (
        "import torch\ndef f():\n    if not torch.cuda.is_available():\n        y = y.to('jax')\n    x = 1\n"
    )
    assert expected == converted(module, ("def f():\n    ", "|y = y.to('jax')\n    "))


@pytest.mark.parametrize("insertion", ["|@torchax.compile\n", "| + 'jax'"])
def test_a_decorator_or_a_part_of_an_expression_cannot_be_inserted_on_a_condition(
    parse: Parse, insertion: str
) -> None:
    module = parse("import torch\nx = 1\ndef f(): pass\n")
    before = "x = 1\n" if insertion.startswith("|@") else "x = 1"
    assert "(shown)" == converted(module, (before, insertion))


def test_a_context_of_cuda_is_entered_with_cuda_alone(parse: Parse) -> None:
    """Edits that reach into another statement have no branch of their own."""
    module = parse("import torch\nwith torch.cuda.stream(s): f()\nx = 1\n")
    expected = (
        "import contextlib\n\nimport torch\n"
        "with torch.cuda.stream(s) if torch.cuda.is_available() else contextlib.nullcontext(): f()\nx = 1\n"
    )
    edits = ("stream(s): f()\nx = 1", "'jax'")
    assert expected == converted(module, edits, at="torch.cuda.stream(s)")
    assert "(shown)" == converted(module, edits, at="f()")


def test_imports_of_torchax_are_guarded(parse: Parse) -> None:
    module = parse("import torch\nx = y.cuda()\n")
    expected = (
        "import torch\n\nif not torch.cuda.is_available():\n    import torchax\n"
        "x = y.cuda() if torch.cuda.is_available() else y.to('jax')\n"
    )
    assert expected == converted(module, ("import torch\n", "|import torchax\n"), ("y.cuda()", "y.to('jax')"))


def test_a_guarded_import_joins_the_guard_that_is_there(parse: Parse) -> None:
    guard = "if not torch.cuda.is_available():\n    import torchax\n"
    module = parse(f"import torch\n\n{guard}x = 1\n")
    added = guarded_import(module, "torchax.enable_globally()\n")
    text, _ = apply(module.source.text, [Fix("", (added,), Applicability.SAFE)])
    assert f"import torch\n\n{guard}    torchax.enable_globally()\nx = 1\n" == text
    kept = two_way(module, finding(module, Fix("add", (added,), Applicability.SAFE), "x = 1"))
    assert kept is not None and (added,) == kept.edits


def test_a_guarded_import_stands_above_what_needs_torchax(parse: Parse) -> None:
    module = parse("import torch\nx = torch.device('jax')\nimport os\n")
    text, _ = apply(module.source.text, [Fix("", (guarded_import(module, ENABLE),), Applicability.SAFE)])
    expected = (
        "import torch\n\n"
        "if not torch.cuda.is_available():\n"
        "    import torchax\n    torchax.enable_globally()\n"
        "x = torch.device('jax')\nimport os\n"
    )
    assert expected == text


def test_no_fix_and_one_that_serves_cuda_are_left_alone(parse: Parse) -> None:
    module = parse("import torch\nx = y.cuda()\n")
    serves = Fix("use", (edit(module, "y.cuda()", "'jax'"),), Applicability.SAFE, serves_cuda=True)
    assert two_way(module, finding(module, None, "x")) is None
    assert serves == two_way(module, finding(module, serves, "x"))


@pytest.mark.parametrize(
    ("text", "keeps_gpu", "expected"),
    [
        ("if A:\n    x = x.cuda()\nelse:\n    x = x.to('jax')", False, ["A", "x = x.cuda()"]),
        ("if not A:\n    import torchax\nelse:\n    x = x.cuda()", False, ["A", "x = x.cuda()"]),
        ("if not A:\n    from torchax import interop\nelse:\n    y()", False, ["A", "y()"]),
        ("d = 'cuda' if A else 'jax'", False, ["A", "'cuda'"]),
        ("d = 'cuda' if A else 'cpu'", False, []),
        ("d = 'cuda' if A else 'cpu'", True, ["'cuda'"]),
        ("if A:\n    torch.cuda.empty_cache()", True, ["A", "torch.cuda.empty_cache()"]),
        ("if A:\n    torch.cuda.empty_cache()", False, []),
        ("if big:\n    torch.cuda.empty_cache()", True, []),
        ("if torch.cuda.device_count():\n    x = x.cuda()", True, []),
    ],
)
def test_code_that_only_cuda_reaches(parse: Parse, text: str, keeps_gpu: bool, expected: list[str]) -> None:
    asked = "torch.cuda.is_available()"
    module = parse(f"import torch\n{text.replace('A', asked)}\n")
    module.project.keeps_gpu = keeps_gpu
    spans = list(apart(module))
    found = [module.source.text[span.start : span.end].replace(asked, "A") for span in spans]
    assert expected == found
