"""Which files name a device that is not the host's, and which enter the torchax environment."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tpulint.model.module import Module

Parse = Callable[[str], Module]


@pytest.mark.parametrize(
    "code",
    [
        "import torchax\ntorchax.enable_globally()",
        "import torchax as tx\ntx.enable_globally()",
        "from torchax import enable_globally\nenable_globally()",
        "from torchax import enable_globally as start\nstart()",
        "import torchax\nstart = torchax.enable_globally\nstart()",
        "import torchax\nwith torchax.default_env():\n    pass",
        "import torchax\nenv = torchax.default_env()\nwith env:\n    pass",
        "import torchax\ntorchax.default_env().enable_torch_modes()",
        "import torchax\ntorchax.default_env().__enter__()",
        "import torch_xla2\ntorch_xla2.enable_globally()",
        "import torch_xla2 as tx\nwith tx.default_env():\n    pass",
    ],
)
def test_a_file_enters_the_environment(parse: Parse, code: str) -> None:
    assert parse(code).facts().enters


def test_a_question_to_the_environment_does_not_enter_it(parse: Parse) -> None:
    assert not parse("import torchax\nkey = torchax.default_env().prng_key").facts().enters


@pytest.mark.parametrize(
    ("code", "places"),
    [
        ("import torch\ndevice = 'cuda'", True),
        ("import torch\nif name == 'cuda':\n    x.to(name)", True),
        ("import torch\nif name == 'cuda':\n    raise ValueError(name)", False),
        ("import torch\nif name == 'jax':\n    raise ValueError(name)", True),
        ("import torch\ntorch.load('m.pt', map_location={'cuda:0': 'cpu'})", False),
        ("import torch\ntorch.load('m.pt', map_location='cuda:0')", True),
        ("import torch\nwith torch.autocast('cuda', enabled=False):\n    pass", False),
        ("import torch\nimport tensorflow as tf\nwith tf.device('cuda'):\n    pass", False),
        ("import torch\nwith torch.device('cuda'):\n    pass", True),
        ("import tensorflow as tf\nfrom helpers import *\nx = 'cuda'", False),
        ("from helpers import *\nx = torch.zeros(2, device='cuda')", True),
        ("import torch\nparser.add_argument('--device', default='cpu')", True),
        ("import torch\nparser.add_argument('--device', default='cpu')\ntorch.onnx.export(m, x, f)", False),
    ],
)
def test_a_file_places_tensors_on_a_device(parse: Parse, code: str, places: bool) -> None:
    assert parse(code).facts().placed_anywhere is places
