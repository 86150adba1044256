from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tpulint.engine.inquiry import Inquiry, Said, Silence
from tpulint.finding import Finding, Location
from tpulint.model.belief import Belief, LineBelief
from tpulint.model.project.trace_path import Certainty, Step, TracePath
from tpulint.model.values.kinds import (
    ARRAY,
    DATA,
    NONE,
    STATIC,
    TENSOR,
    TENSORS,
    UNKNOWN,
    Device,
    Instance,
    Kind,
    Several,
    Static,
    Tensor,
)
from tpulint.report.inquiry import kind_words, render
from tpulint.report.paint import Paint

PLAIN = Paint(on=False)
HOST_CODE = LineBelief(None, None, ())


def belief(text: str, kind: Kind, name: str | None = None, made_at: tuple[int, ...] = ()) -> Belief:
    return Belief(Location(12, 5), text, kind, name, made_at, frozenset())


def silence(code: str, *, reason: str = "", by_type: bool = False, about: tuple[Belief, ...] = ()) -> Silence:
    return Silence(code, "rule", Location(12, 7), reason, by_type, about)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (UNKNOWN, "unknown type"),
        (TENSOR, "tensor"),
        (Tensor("bool", scalar=True), "zero-dimensional boolean tensor"),
        (Tensor("int", origins=frozenset({3})), "integer tensor created on the host"),
        (Tensor("float", certain=False), "floating-point tensor, or another type"),
        (STATIC, "static Python value"),
        (Static("cuda"), "static Python value, 'cuda'"),
        (NONE, "static Python value, None"),
        (DATA, "Python value read from a tensor"),
        (ARRAY, "NumPy array"),
        (Device("cuda"), "device, 'cuda'"),
        (Device(), "device"),
        (Instance("m.Net"), "module of class `m.Net`"),
        (Instance("m.Other"), "instance of class `m.Other`"),
        (TENSORS, "collection, each item: tensor"),
        (Several(UNKNOWN, (TENSOR, STATIC)), "(tensor; static Python value)"),
    ],
)
def test_inferred_types_are_described_in_words(kind: Kind, expected: str) -> None:
    assert expected == kind_words(kind, {"m.Net"})


def test_report_shows_everything_known_about_a_line(make: Callable[..., Finding], folder: Path) -> None:
    root = Step(None, "`step`, traced by `jax_jit`", str(folder / "run.py"), 3, 1, Certainty.JIT)
    values = (
        belief("x", TENSOR),
        belief("torch.zeros(2)", Tensor("float", origins=frozenset({1})), "torch.zeros", (4, 12)),
        belief("np.pi", UNKNOWN, "numpy.pi"),
        belief("f(x)", UNKNOWN, "m.f"),
    )
    inquiry = Inquiry(
        str(folder / "pkg" / "model.py"),
        12,
        "    x = y.item()",
        LineBelief("step", TracePath((root,), Certainty.JIT), values),
        (Said(make(), suppressed=True, deselected=True), Said(make(), suppressed=False, deselected=False)),
        (
            silence("TPU302", reason="the rule is about traced code"),
            silence("TPU303", by_type=True, about=(belief("y" * 60, STATIC),)),
            silence("TPU401", reason="the file is imported", about=(belief("y", TENSOR),)),
            silence("TPU402"),
        ),
    )
    expected = f"""\
        pkg/model.py:12  x = y.item()
          in `step`; traced, because the project jits the function at the top of this call chain:
            1. run.py:3:1 `step`, traced by `jax_jit`

        inferred types
          x               tensor
          torch.zeros(2)  floating-point tensor created on the host (line 4, 12); calls `torch.zeros`
          np.pi           is `numpy.pi`
          f(x)            calls `m.f`, whose result has an unknown type

        rules
          TPU301 item-in-traced-code, column 9: found, but suppressed by a comment and \
deselected by the settings: `.item()` waits for the device
          TPU301 item-in-traced-code, column 9: reported: `.item()` waits for the device
          TPU302 rule, column 7: not reported: the rule is about traced code
          TPU303 rule, column 7: not reported: the rule looks for another type or name; `{"y" * 39}…`: \
static Python value
          TPU401 rule, column 7: not reported: the file is imported; `y`: tensor
          TPU402 rule, column 7: not reported: the code has another form than the rule looks for \
(see `tpulint explain TPU402`)
        """
    assert textwrap.dedent(expected) == render(inquiry, PLAIN)


@pytest.mark.parametrize("certainty", Certainty)
def test_report_shows_whether_code_is_certainly_traced(certainty: Certainty, folder: Path) -> None:
    chain = TracePath((Step(None, "`f`", "a.py", 1, 1, certainty),), certainty)
    text = render(Inquiry("a.py", 1, "x", LineBelief("f", chain, ()), (), ()), PLAIN)
    assert f"traced, {'because' if certainty is Certainty.JIT else 'assuming that'} " in text


def test_report_of_host_code_without_expressions(folder: Path) -> None:
    inquiry = Inquiry(str(folder / "a.py"), 1, "import x", HOST_CODE, (), ())
    expected = """\
        a.py:1  import x
          at module level; not traced: no traced code calls it

        rules
          no rule looks at the code on this line
        """
    assert textwrap.dedent(expected) == render(inquiry, PLAIN)
