"""Which functions of a package are for others to jit, as nobody in it calls them on the host."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from tpulint.engine.run import as_units, linked
from tpulint.model.project.project import ProjectFacts
from tpulint.settings import Settings

HEAD = "import numpy as np\nimport torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"


def package(
    folder: Path, files: dict[str, str], bare: Mapping[str, str] = MappingProxyType({})
) -> ProjectFacts:
    """A package `pkg`, on disk since its `__init__.py` is looked for there; `bare` files get no imports."""
    root = folder / "pkg"
    root.mkdir()
    texts = {"__init__": "", **bare, **{name: HEAD + textwrap.dedent(text) for name, text in files.items()}}
    for name, text in texts.items():
        (root / f"{name}.py").write_text(text)
    units = as_units({str(root / f"{name}.py"): text.encode() for name, text in texts.items()})
    return linked(units, Settings(), jobs=1)


def is_traced(project: ProjectFacts, name: str) -> bool:
    return project.trace_path(f"pkg.{name}") is not None


@pytest.mark.parametrize(
    "body",
    [
        "return x.unsqueeze(0)",
        "return torch.mean(x, dim=0)",
        "return F.softmax(x, dim=-1)",
        "x = x.double()\n    return torch.sort(x)[0]",
    ],
)
def test_an_unannotated_parameter_used_as_a_tensor_makes_a_function_a_root(tmp_path: Path, body: str) -> None:
    assert is_traced(package(tmp_path, {"ops": f"def op(x, k=3):\n    {body}\n"}), "ops.op")


@pytest.mark.parametrize(
    "body",
    [
        "return x + 1",
        "return x.reshape(-1)",  # of an array, too
        "return x.unsqueeze(0), x.name",
        "x = torch.tensor(x)\n    return x.unsqueeze(0)",
        "x = torch.Tensor(x).long()\n    return F.pad(x, (1, 0))",
        "x = load(x)\n    return x.unsqueeze(0)",
        "return x.permute(1, 0) if torch.is_tensor(x) else np.transpose(x)",
        "return torch.add(x, 1)",  # of a number, too
    ],
)
def test_an_unannotated_parameter_with_ambiguous_use_makes_no_root(tmp_path: Path, body: str) -> None:
    assert not is_traced(package(tmp_path, {"ops": f"def op(x, k=3):\n    {body}\n"}), "ops.op")


def test_private_functions_methods_and_host_called_functions_are_no_roots(
    tmp_path: Path,
) -> None:
    ops = """
        def _private(x): return x.unsqueeze(0)
        def called(x): return x.unsqueeze(0)
        class Reader:
            def read(self, x): return x.unsqueeze(0)
        def main(): called(load())
    """
    project = package(tmp_path, {"ops": ops})
    for name in ("_private", "called", "Reader.read"):
        assert not is_traced(project, f"ops.{name}")


def test_a_module_whose_base_comes_through_a_star_import_is_recognized(tmp_path: Path) -> None:
    net = "class Net(nn.Module):\n    def forward(self, x): return x\n"
    bare = {
        "inputs": "",
        "everything": "from .layers import *\nfrom .inputs import *\n",
        "net": f"from .everything import *\nfrom .inputs import *\n{net}",
    }
    project = package(tmp_path, {"layers": ""}, bare)
    assert is_traced(project, "net.Net.forward")


def test_public_methods_of_classes_made_of_tensors_are_trace_roots(tmp_path: Path) -> None:
    boxes = """
        class Boxes:
            def __init__(self, data: torch.Tensor): self.data = data
            def to_mask(self, height: int): return self._masked(height)
            def _masked(self, height): return self.data
            def __len__(self): return 3
        class VideoBoxes(Boxes):
            def frames(self, count: int): return self.data
        class _Private:
            def __init__(self, data: torch.Tensor): self.data = data
            def area(self, k: int): return self.data
        class Named:
            def __init__(self, name: str): self.name = name
            def show(self, k: int): return self.name
    """
    project = package(tmp_path, {"boxes": boxes})
    for name in ("Boxes.to_mask", "Boxes._masked", "VideoBoxes.frames"):
        assert is_traced(project, f"boxes.{name}")
    for name in ("Boxes.__len__", "_Private.area", "Named.show"):
        assert not is_traced(project, f"boxes.{name}")


@pytest.mark.parametrize(
    ("body", "traced"),
    [
        ("def op(model, x): return model(torch.softmax(x, -1))", True),  # not the first one
        ("def inner(x): return x.unsqueeze(0)\ndef op(x): return inner(x)", True),  # proven by what it calls
        ("def inner(y, x): return x.unsqueeze(0)\ndef op(x): return inner(1, x=x)", True),
        ("def inner(x): return x.unsqueeze(0)\ndef op(x): return inner(load(x))", False),
        ("def inner(x): return x.unsqueeze(0)\ndef op(x=2): return inner(x)", False),
        ("def inner(x): return inner(x)\ndef op(x): return inner(x)", False),  # calls itself for ever
    ],
)
def test_a_function_is_a_root_where_any_parameter_can_only_be_a_tensor(
    tmp_path: Path, body: str, traced: bool
) -> None:
    project = package(tmp_path, {"ops": body})
    assert traced == is_traced(project, "ops.op")


@pytest.mark.parametrize(
    ("method", "traced"),
    [
        ("def inverse(self, y): return torch.log(y)", True),
        ("def _inverse(self, y): return torch.log(y)", False),
        ("def inverse(self, y): return y + 1", False),
        ("def adopt(self, other): self.load_state_dict(other.state_dict())", False),
        ("@torch.no_grad()\n    def inverse(self, y): return torch.log(y)", False),
    ],
)
def test_a_public_method_of_a_module_that_takes_a_tensor_is_a_root(
    tmp_path: Path, method: str, traced: bool
) -> None:
    project = package(tmp_path, {"nets": f"class Exp(nn.Module):\n    {method}\n"})
    name = method.partition("def ")[2].partition("(")[0]
    assert traced == is_traced(project, f"nets.Exp.{name}")


def test_calls_of_other_files_tell_what_a_parameter_is(tmp_path: Path) -> None:
    files = {
        "ops": "def weighted(x, scale, size): return x * scale * size",
        "nets": """
            from pkg.ops import weighted
            class Net(nn.Module):
                def forward(self, x, mask):
                    x = torch.relu(x)
                    return weighted(x, torch.softmax(x, -1), 3)
        """,
    }
    tensors = package(tmp_path, files).tensors.handed
    found = {parameter for function, parameter in tensors if function == "pkg.ops.weighted"}
    assert found == {"x", "scale"}


@pytest.mark.parametrize(
    ("body", "traced"),
    [
        ("return torch.sigmoid(x).cpu().numpy()", False),
        ("return torch.argmax(x).item()", False),
        ("acc = np.mean(torch.relu(x).cpu().numpy())\n    return acc", False),
        ("return torch.argmax(x).tolist(), np.asarray(k)", False),
        ("y = torch.relu(x)\n    return y", True),
        ("if k: return torch.relu(x).item()\n    return torch.relu(x)", True),
    ],
)
def test_a_function_that_gives_only_what_it_copied_to_the_host_is_no_root(
    tmp_path: Path, body: str, traced: bool
) -> None:
    project = package(tmp_path, {"ops": f"def op(x, k=3):\n    {body}\n"})
    assert traced == is_traced(project, "ops.op")
