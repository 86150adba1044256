"""Where TPU210 offers to replace float16 with bfloat16: only where no other code may depend on float16."""

from __future__ import annotations

import pytest

from tpulint.engine.run import analyse_units, as_units
from tpulint.finding import Finding
from tpulint.settings import Settings

PROGRAM = """\
import numpy as np
import torch
from torch import nn

model = nn.Linear(4, 4).half().to("jax")
x = torch.rand(2, 4).half().to("jax")
"""


def findings(text: str, settings: Settings | None = None, **others: str) -> list[Finding]:
    """The findings of TPU210 in a program, beside other files of its project."""
    files = {"program.py": text, **{f"{name}.py": other for name, other in others.items()}}
    units = as_units({path: content.encode() for path, content in files.items()})
    found = analyse_units(units, settings or Settings(), jobs=1).findings
    return [one for one in found if one.code == "TPU210"]


@pytest.mark.parametrize(
    "code",
    [
        "print(model(x))",
        "print(model(x).float().cpu().numpy())",
        "print(np.array([1, 2]), model(x.to(dtype=torch.half)))",
        "dtype = torch.float16\ny = model(x + torch.zeros(4, dtype=dtype, device='jax'))",
    ],
)
def test_conversions_are_replaced_together(code: str) -> None:
    (found,) = findings(PROGRAM + code)
    assert found.fix is not None
    assert found.fix.title == "replace float16 with bfloat16 in this file"
    assert (PROGRAM + code).count("half") + code.count("float16") == len(found.fix.rewrites)


@pytest.mark.parametrize(
    "code",
    [
        "print(model(x).cpu().numpy())",
        "print(np.asarray(model(x)))",
        "torch.save(x, 'x.pt')\nprint(model(x))",
        "model(x).sum().backward()",
        "print(torch.autograd.grad(model(x).sum(), model.weight))",
        "print(model(x), torch.finfo(torch.float16).max)",
        "print(model(x).dtype == torch.half)",
        "print(model(x), torch.from_numpy(np.zeros(4, np.float16)))",
        "print(model(torch.arange(1000, 1008).reshape(2, 4).half().to('jax')))",
        "dtype = torch.float16\nprint(model(x), str(dtype))",
        "model.to('float16')",
    ],
)
def test_other_uses_of_float16_leave_no_fix(code: str) -> None:
    (found,) = findings(PROGRAM + code)
    assert found.fix is None


def test_programs_of_several_files_and_programs_for_cuda_have_no_fix() -> None:
    imported = findings(f"import data\n{PROGRAM}print(model(data.load()))", data="def load(): ...")
    kept = findings(f"{PROGRAM}print(model(x))", Settings(keep_gpu=True))
    assert [None, None] == [one.fix for one in (*imported, *kept)]


@pytest.mark.parametrize(
    "code",
    [
        "x.half().view(torch.int16)",
        "states = {'model': nn.Linear(4, 4).half()}",
        "torch.save(nn.Linear(4, 4).half().state_dict(), 'model.pt')",
        "net = nn.Linear(4, 4).half()\ntorch.save(net, 'model.pt')",
        "if x.is_cuda:\n    nn.Linear(4, 4).half()",
        "def put(net, dtype=torch.float16): return net.to(dtype)",
    ],
)
def test_data_and_saved_modules_are_not_reported(code: str) -> None:
    program = "import torch\nfrom torch import nn\n\nx = torch.rand(2).to('jax')\n"
    assert findings(program + code) == []


@pytest.mark.parametrize(
    "code",
    [
        "if x.dtype == torch.float16:\n    model.half()",
        "state.low = model.dtype == torch.half and state.force\nif state.low:\n    model.to(torch.half)",
    ],
)
def test_no_finding_where_the_dtype_from_before_is_restored(code: str) -> None:
    assert not findings(f"import torch\nmodel = torch.nn.Linear(2, 2).to('jax')\n{code}")


@pytest.mark.parametrize(
    "code",
    [
        "if dtype == torch.float16:\n    model.half()",
        "if x.dtype == torch.float32:\n    model.half()",
        "small = x.dtype == torch.float16\nif not other:\n    model.half()",
    ],
)
def test_conversion_for_another_reason_is_found(code: str) -> None:
    assert findings(f"import torch\nmodel = torch.nn.Linear(2, 2).to('jax')\n{code}")
