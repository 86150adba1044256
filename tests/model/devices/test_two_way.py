"""Fixes that leave a program what it does where there is CUDA."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.rewriting import applied, fix_of, planned
from tpulint.finding import Applicability, Finding, Fix, Span
from tpulint.model.devices.two_way import apart, only_without_cuda, two_way
from tpulint.model.module import Module
from tpulint.plan import Change, Import, Kind

Parse = Callable[[str], Module]
#: The source of a node, and the code that replaces it.
Replacement = tuple[str, str]

ENABLE = "import torchax\ntorchax.enable_globally()"


def finding(module: Module, fix: Fix | None, at: str) -> Finding:
    start = module.source.text.index(at)
    found = module.source.location(start)
    return Finding("app.py", found, found, "TPU000", "name", "text", Span(start, start + len(at)), "", fix)


def changed(module: Module, *changes: Change, at: str = "") -> str:
    """The text with a fix applied in its form for both devices; "(shown)" if it has none."""
    kept = two_way(module, finding(module, fix_of(*changes), at))
    assert kept is not None
    if kept.applicability is Applicability.DISPLAY:
        return "(shown)"
    return applied(module.source, *kept.rewrites, *kept.imports)


def converted(module: Module, *replacements: Replacement, at: str = "") -> str:
    """The text with nodes replaced in a form for both devices; "(shown)" if there is none."""
    rewrites = [planned(module.source, old, Kind.REPLACE, new) for old, new in replacements]
    return changed(module, *rewrites, at=at)


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


def test_a_fix_of_statements_that_share_their_line_is_only_shown(parse: Parse) -> None:
    module = parse('import torch\nx = y.cuda(); z = "cuda"\n')
    run = planned(module.source, "x = y.cuda()", Kind.REPLACE_RUN, "pass", "2")
    assert "(shown)" == changed(module, run)
    assert "(shown)" == converted(module, ("x = y.cuda()", "pass"))


def test_a_string_of_several_lines_keeps_its_text_in_a_branch(parse: Parse) -> None:
    block = "with torch.cuda.stream(s):\n    f('''a\nb''')"
    expected = (
        "import torch\nif torch.cuda.is_available():\n    with torch.cuda.stream(s):\n        f('''a\nb''')\n"
    )
    assert expected == converted(parse(f"import torch\n{block}\n"), (block, "pass"))


def test_a_fix_is_only_shown_where_torch_means_something_else(parse: Parse) -> None:
    assert "(shown)" == converted(parse("torch = 1\nx = y.cuda()\n"), ("y.cuda()", "y.to('jax')"))


def test_torch_is_imported_for_the_condition(parse: Parse) -> None:
    expected = "import torch\nd = 'cuda' if torch.cuda.is_available() else 'jax'\n"
    assert expected == converted(parse("d = 'cuda'\n"), ("'cuda'", "'jax'"))


@pytest.mark.parametrize(
    ("before", "replacement"),
    [
        ("x = y.view(-1)", ("y.view", "y.reshape")),
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
    module = parse(f"import torch\n{before}")
    insertion = planned(module.source, "x = 1", Kind.INSERT_AFTER, "model = model.to('jax')")
    assert f"import torch\n{after}" == changed(module, insertion)


def test_a_line_inserted_in_front_of_a_statement_runs_without_cuda_alone(parse: Parse) -> None:
    module = parse("import torch\ndef f():\n    x = 1\n")
    expected = (
        "import torch\ndef f():\n    if not torch.cuda.is_available():\n        y = y.to('jax')\n    x = 1\n"
    )
    assert expected == changed(module, planned(module.source, "x = 1", Kind.INSERT_BEFORE, "y = y.to('jax')"))


def test_a_decorator_cannot_be_added_on_a_condition(parse: Parse) -> None:
    module = parse("import torch\nx = 1\ndef f(): pass\n")
    added = planned(module.source, "def f(): pass", Kind.ADD_DECORATOR, "torchax.compile")
    assert "(shown)" == changed(module, added)


def test_code_around_an_expression_is_put_there_without_cuda_alone(parse: Parse) -> None:
    module = parse("import torch\nx = 1\n")
    expected = "import torch\nx = 1 if torch.cuda.is_available() else 1 + 'jax'\n"
    assert expected == changed(module, planned(module.source, "1", Kind.WRAP, "", " + 'jax'"))


def test_a_context_of_cuda_is_entered_with_cuda_alone(parse: Parse) -> None:
    """Rewrites of several statements have no branch of their own."""
    module = parse("import torch\nwith torch.cuda.stream(s): f()\nx = 1\n")
    expected = (
        "import contextlib\n\nimport torch\n"
        "with torch.cuda.stream(s) if torch.cuda.is_available() else contextlib.nullcontext(): f()\nx = 1\n"
    )
    replacements = [("f()", "g()"), ("1", "'jax'")]
    assert expected == converted(module, *replacements, at="torch.cuda.stream(s)")
    assert "(shown)" == converted(module, *replacements, at="f()")


def test_imports_of_torchax_are_guarded(parse: Parse) -> None:
    module = parse("import torch\nx = y.cuda()\n")
    expected = (
        "import torch\n\nif not torch.cuda.is_available():\n    import torchax\n"
        "x = y.cuda() if torch.cuda.is_available() else y.to('jax')\n"
    )
    moved = planned(module.source, "y.cuda()", Kind.REPLACE, "y.to('jax')")
    assert expected == changed(module, Import("import torchax"), moved)


def test_a_guarded_import_joins_the_guard_that_is_there(parse: Parse) -> None:
    guard = "if not torch.cuda.is_available():\n    import torchax\n"
    module = parse(f"import torch\n\n{guard}x = 1\n")
    added = only_without_cuda(module, Import("torchax.enable_globally()"))
    expected = f"import torch\n\n{guard}    torchax.enable_globally()\nx = 1\n"
    assert expected == applied(module.source, added)
    kept = two_way(module, finding(module, fix_of(added), "x = 1"))
    assert kept is not None and (added,) == kept.imports


def test_a_guarded_import_stands_above_what_needs_torchax(parse: Parse) -> None:
    module = parse("import torch\nx = torch.device('jax')\nimport os\n")
    expected = (
        "import torch\n\n"
        "if not torch.cuda.is_available():\n"
        "    import torchax\n    torchax.enable_globally()\n"
        "x = torch.device('jax')\nimport os\n"
    )
    assert expected == applied(module.source, only_without_cuda(module, Import(ENABLE)))


def test_no_fix_and_one_that_serves_cuda_are_left_alone(parse: Parse) -> None:
    module = parse("import torch\nx = y.cuda()\n")
    rewrite = planned(module.source, "y.cuda()", Kind.REPLACE, "'jax'")
    serves = Fix("use", (rewrite,), Applicability.SAFE, serves_cuda=True)
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
