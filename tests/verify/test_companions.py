"""What a fixed program finds beside it, as the program runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tpulint.knowledge.training import TRAINING

pytest.importorskip("torchax")

PROGRAM = """\
import torch
import torchax
import {first} as first
import {second} as second
from {second}.tracing.reach import reached

torchax.enable_globally()
print(first is second, first.differentiable is second.differentiable, reached.__module__)
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [("torchax_training", "pkg.torchax_training"), ("pkg.torchax_training", "torchax_training")],
)
def test_two_copies_in_one_program_are_one(
    first: str, second: str, tmp_path: Path, lay: Callable[[Path], None], printed: Callable[[str], str]
) -> None:
    lay(tmp_path / "pkg")
    assert printed(PROGRAM.format(first=first, second=second)) == f"True True {first}.tracing.reach\n"


LIBRARY = """\
import torch

library = torch.library.Library("torchvision", "DEF")
library.define("_version() -> int")
library.impl("_version", lambda: 3, "CompositeExplicitAutograd")
library.define("nms(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor")
library.impl("nms", lambda boxes, scores, least: (scores > least).nonzero().flatten(), "CPU")
version = torch.ops.torchvision._version()
"""

IMPORTED = """\
import torch
import torchax
import torchax_training

torchax.enable_globally()
import torchvision

boxes, scores = torch.ones(3, 4, device="jax"), torch.tensor([0.1, 0.9, 0.6], device="jax")
kept = torch.ops.torchvision.nms(boxes, scores, 0.5)
print(torchvision.version, kept, scores[kept])
"""


def test_torchvision_can_be_imported_within_the_environment_and_suppresses_boxes(
    tmp_path: Path, printed: Callable[[str], str]
) -> None:
    (tmp_path / "torchvision.py").write_text(LIBRARY)
    assert printed(IMPORTED) == "3 tensor([1, 2], device='jax:0') tensor([0.9000, 0.6000], device='jax:0')\n"


MADE_ANEW = """\
import os

import jax
import torch
import torch.nn as nn
import torchax
from torchax_training import compiled, differentiable

torchax.enable_globally()
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event.endswith("/cache_hits")))


@differentiable
def compute_loss(model, x):
    loss = (model(x) ** 2).mean()
    return loss


def train():
    model = nn.Linear(3, 2).to("jax")
    optimizer = compiled(torch.optim.SGD(model.parameters(), lr=0.1))
    compute_loss(model, torch.ones(4, 3)).backward()
    optimizer.step()


train()
first = sum(hits)
train()
print(sum(hits) - first >= 3)
folder = jax.config.jax_compilation_cache_dir
print(os.path.isdir(folder))
with open("folder", "w") as file:
    file.write(folder)
"""


def test_models_that_are_made_anew_are_compiled_once(tmp_path: Path, printed: Callable[[str], str]) -> None:
    assert printed(MADE_ANEW) == "True\nTrue\n"
    assert not Path((tmp_path / "folder").read_text()).exists()  # nothing is left behind


ALL = """\
import importlib
from pathlib import Path

import torchax
import torchax_training

torchax.enable_globally()
for path in sorted(Path("torchax_training").rglob("*.py")):
    importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    print(path)
"""


def test_all_its_files_can_be_imported(printed: Callable[[str], str]) -> None:
    assert len(printed(ALL).splitlines()) == len(TRAINING.files())


TWICE = """\
import shutil
import torchax_training

shutil.copytree("torchax_training", "pkg/torchax_training")
open("pkg/__init__.py", "w").close()
from pkg.torchax_training import compiled
from pkg import torchax_training as other

print(other is torchax_training, compiled is torchax_training.compiled)
"""


def test_a_second_copy_of_the_folder_is_the_first(printed: Callable[[str], str]) -> None:
    assert printed(TWICE) == "True True\n"
