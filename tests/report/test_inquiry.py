from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tpulint.engine.inquiry import Inquiry, Said, Silence
from tpulint.finding import Finding, Location
from tpulint.model.belief import Belief, LineBelief
from tpulint.model.project.project import Certainty, Step, TracePath
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


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (UNKNOWN, "unknown"),
        (TENSOR, "tensor"),
        (Tensor("bool", scalar=True), "boolean tensor without dimensions"),
        (Tensor("int", origins=frozenset({3})), "integer tensor made on the host"),
        (Tensor("float", certain=False), "floating-point tensor, or something else"),
        (STATIC, "static Python value"),
        (Static("cuda"), "static Python value, 'cuda'"),
        (NONE, "static Python value, None"),
        (DATA, "Python value that was read out of a tensor"),
        (ARRAY, "NumPy array"),
        (Device("cuda"), "device, 'cuda'"),
        (Device(), "device"),
        (Instance("m.Net"), "module of class `m.Net`"),
        (Instance("m.Other"), "instance of class `m.Other`"),
        (TENSORS, "several, each: tensor"),
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
            Silence("TPU302", "python-scalar", Location(12, 7), traced=False, about=()),
            Silence("TPU303", "branch", Location(12, 8), traced=True, about=(belief("y" * 60, STATIC),)),
            Silence("TPU401", "mask", Location(12, 9), traced=True, about=()),
        ),
    )
    expected = f"""\
        pkg/model.py:12  x = y.item()
          in `step`; traced, since its root is jitted:
            1. run.py:3:1 `step`, traced by `jax_jit`

        values
          x               tensor
          torch.zeros(2)  floating-point tensor made on the host (line 4, 12); calls `torch.zeros`
          np.pi           is `numpy.pi`
          f(x)            calls `m.f`, whose result is unknown

        rules
          TPU301 item-in-traced-code, column 9: found (suppressed by a comment, deselected by the settings): \
`.item()` waits for the device
          TPU301 item-in-traced-code, column 9: found: `.item()` waits for the device
          TPU302 python-scalar, column 7: silent: not asked, since nothing that is traced reaches it
          TPU303 branch, column 8: silent: its conditions do not hold; `{"y" * 39}…`: static Python value
          TPU401 mask, column 9: silent: its conditions do not hold
        """
    assert textwrap.dedent(expected) == render(inquiry, PLAIN)


@pytest.mark.parametrize("certainty", Certainty)
def test_report_shows_whether_code_is_certainly_traced(certainty: Certainty, folder: Path) -> None:
    chain = TracePath((Step(None, "`f`", "a.py", 1, 1, certainty),), certainty)
    text = render(Inquiry("a.py", 1, "x", LineBelief("f", chain, ()), (), ()), PLAIN)
    assert f"traced, {'since' if certainty is Certainty.JIT else 'if'} " in text


def test_report_of_host_code_without_expressions(folder: Path) -> None:
    inquiry = Inquiry(str(folder / "a.py"), 1, "import x", HOST_CODE, (), ())
    expected = """\
        a.py:1  import x
          outside of any function; host code: nothing that is traced reaches it

        rules
          none has anything to look at here
        """
    assert textwrap.dedent(expected) == render(inquiry, PLAIN)
