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


LOADED = """\
import torch
import torchax
import torchax_training
from torch.utils.data import DataLoader

torchax.enable_globally()
torch.ones(2).to("jax").sum().item()
loader = DataLoader(torch.arange(6), batch_size=2, num_workers=2)
for epoch in range(2):
    print([batch.tolist() for batch in loader])
"""


def test_loaders_do_without_workers_that_would_hang(printed: Callable[[str], str]) -> None:
    assert printed(LOADED) == "[[0, 1], [2, 3], [4, 5]]\n" * 2


LOSSES = """\
import torch
import torch.nn as nn
import torchax
from torchax_training import differentiable

torchax.enable_globally()
net = nn.Linear(3, 1).to("jax")
x = torch.ones(2, 3).to("jax")


@differentiable
def compute_loss(net, criterion, x):
    return criterion(net(x), x[:, :1])


for epoch in range(20):
    compute_loss(net, nn.MSELoss(), x)
print(len(compute_loss.known.traces), compute_loss.is_compiled)
for criterion in (nn.MSELoss(reduction="sum"), nn.HuberLoss(), nn.HuberLoss(delta=2.0)):
    compute_loss(net, criterion, x)
print(len(compute_loss.known.traces))
"""


def test_losses_that_are_made_anew_are_told_apart_by_what_they_are(printed: Callable[[str], str]) -> None:
    assert printed(LOSSES) == "1 True\n4\n"


SHOWN = """\
import torch
import torchax
import torchax_training

torchax.enable_globally()
x = torch.linspace(-1, 2, 4).to("jax")
whole = torch.arange(6, device="jax").reshape(2, 3)
print(x, x[1:3], whole, x > 0, x.half(), sep="\\n")
print(torch.nn.Parameter(x), f"{x.sum():.3f}", f"{x.mean()}", torch.allclose(x, x + 1e-9))
copy, numbers = torch.tensor(x), torch.tensor([x[0], x.sum()])
copy[0] = 5
print(copy, numbers, torch.as_tensor([[whole[0, 1]], [whole[1, 1]]]), x[0].item())
print(torch.rand_like(x).device, torch.rand_like(x.cpu()).device)
"""

PRINTED = """\
tensor([-1.,  0.,  1.,  2.], device='jax:0')
tensor([0., 1.], device='jax:0')
tensor([[0, 1, 2],
        [3, 4, 5]], device='jax:0')
tensor([False, False,  True,  True], device='jax:0')
tensor([-1.,  0.,  1.,  2.], device='jax:0', dtype=torch.float16)
Parameter containing:
tensor([-1.,  0.,  1.,  2.], device='jax:0', requires_grad=True) 2.000 0.5 True
tensor([5., 0., 1., 2.], device='jax:0') tensor([-1.,  2.]) tensor([[1],
        [4]]) -1.0
jax:0 cpu
"""


def test_tensors_print_and_are_copied_as_those_of_a_gpu(printed: Callable[[str], str]) -> None:
    assert printed(SHOWN) == PRINTED


NUMBERS = """\
import torch
import torchax
import torchax_training
from torchax_training.tensors import operations

torchax.enable_globally()
operations.PATIENCE = 0.0
x, count = torch.ones(3).to("jax"), torch.tensor([2]).to("jax")
for step in range(6):
    x = x * (1 + step / 4)
    count = count * (1 + step / 4)
known = [one for key, one in operations._operations.items() if key[0] is torch.ops.aten.mul.Tensor]
print(x.tolist(), count.dtype, sum(one.compiled is not None for one in known))
x.add_(torch.ones(3).to("jax"), alpha=x.mean())
print((x * torch.tensor(0.5)).tolist(), torch.tensor([1, 2.5], device="jax").tolist())
made = torch.zeros(2, 3, dtype=torch.int32, device="jax").to(torch.float32)
print(made.shape, made.dtype, torch.full((2,), 1.5, device="jax").tolist())
"""


def test_numbers_that_change_are_inputs_of_what_is_compiled(printed: Callable[[str], str]) -> None:
    assert printed(NUMBERS) == (
        "[14.765625, 14.765625, 14.765625] torch.float32 2\n"
        "[14.765625, 14.765625, 14.765625] [1.0, 2.5]\n"
        "torch.Size([2, 3]) torch.float32 [1.5, 1.5]\n"
    )


EVALUATED = """\
import torch
import torch.nn as nn
import torchax
import torchax_training
from torchax_training.tracing import calls

torchax.enable_globally()
calls.PATIENCE = 0.0
traced = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.calls, self.last = nn.Linear(2, 2), 0, None
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x):
        traced.append(isinstance(x.jax(), torchax.tensor.jax.core.Tracer))
        self.calls += 1
        self.total += x.sum((0, 1)).detach()
        self.last = self.inner(x)
        return self.last * 2


net = Net().to("jax")
nn.init.ones_(net.inner.weight), nn.init.zeros_(net.inner.bias)
net.eval()
x = torch.ones(1, 1, 2).to("jax")
for _ in range(5):
    y = net(x)
    x = torch.cat([x, y[:, -1:].detach() / 4], dim=1)
print(y.shape, net.calls, net.total.tolist(), (net.last * 2 == y).all().item(), any(traced))
traced.clear()
y = net(x.requires_grad_())
net.train()
y = net(x.detach())
print(net.calls, any(traced))
"""


def test_what_is_evaluated_is_compiled_with_gradients_enabled_too(printed: Callable[[str], str]) -> None:
    assert printed(EVALUATED) == "torch.Size([1, 5, 2]) 5 [15.0, 15.0] True True\n7 False\n"


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


HOOKED = """\
import jax
import torch
import torch.nn as nn
import torchax
import torchax_training

torchax.enable_globally()
torch.manual_seed(0)
model = nn.Linear(3, 2).to("jax")
model.register_full_backward_hook(lambda module, of_inputs, of_outputs: None)
jacobian = torchax.interop.torch_view(jax.jacrev(torchax.interop.jax_view(lambda x: model(x))))
print(torch.equal(jacobian(torch.ones(3).to("jax")), model.weight.detach()))
"""


def test_what_jax_alone_differentiates_calls_no_hooks(printed: Callable[[str], str]) -> None:
    assert printed(HOOKED) == "True\n"


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


QUEUED = """\
from array import array

import torch
import torch.nn as nn
import torchax
from torchax_training import differentiable

torchax.enable_globally()
traced = array("q")  # which is not watched


class Queue(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("queue", torch.zeros(8, 2))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        traced.append(len(x))
        hidden = self.layer(x)
        place = int(self.place)
        with torch.no_grad():
            self.queue[place : place + 2] = hidden
        self.place[0] = (place + 2) % 8
        return (hidden @ self.queue.detach().t()).sum()


@differentiable
def compute_loss(model, x):
    loss = model(x)
    return loss


model = Queue().to("jax")
for step in range(12):
    compute_loss(model, torch.ones(2, 3).to("jax"))
    if step == 4:
        del traced[:]
print(compute_loss.is_compiled, list(traced), model.place.item(), (model.queue == 0).any().item())
"""


@pytest.mark.parametrize("keys", ["hidden", "hidden.detach()"])
def test_a_place_that_moves_on_at_each_call_is_compiled_once(
    keys: str, printed: Callable[[str], str]
) -> None:
    assert printed(QUEUED.replace("= hidden\n", f"= {keys}\n")) == "True [] 0 False\n"


ANNEALED = """\
import torch
import torch.nn as nn
import torchax
from torchax_training import differentiable

torchax.enable_globally()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.once, self.often = nn.Linear(3, 2), 1.0, 1.0

    def forward(self, x):
        return self.layer(x) / self.once * self.often


@differentiable
def compute_loss(net, x):
    loss = net(x).sum()
    return loss


net = Net().to("jax")
for name in ("once", "often"):
    for step in range(12):
        setattr(net, name, 2.0 if name == "once" and step > 3 else 1.0 + step * (name == "often"))
        loss = compute_loss(net, torch.ones(2 + step % 3, 3).to("jax"))
    known = compute_loss.known
    print(sum(map(len, known.traces.values())), compute_loss.is_compiled, len(known.states))
"""


def test_a_number_that_changes_once_stays_a_constant_and_one_that_keeps_changing_becomes_an_input(
    printed: Callable[[str], str],
) -> None:
    assert printed(ANNEALED) == "6 True 0\n11 True 1\n"


SIZED = """\
import torch
import torch.nn as nn
import torchax
from torchax_training import differentiable

torchax.enable_globally()
torch.manual_seed(0)
model = nn.Linear(3, 4).to("jax")


@differentiable
def compute_loss(x, graph):
    hidden = model(x)
    count = int(graph.max().item() + 1)
    pooled = hidden.new_zeros((count, *hidden.shape[1:])).index_add_(0, graph, hidden)
    return (pooled**2).mean(), hidden.argmax(1).eq(graph).sum().item()


graph = torch.tensor([0, 0, 1, 2, 2]).to("jax")
for step in range(5):
    loss, right = compute_loss(torch.full((5, 3), step / 4).to("jax"), graph)
    loss.backward()
print(compute_loss.is_compiled, right)
loss, _ = compute_loss(torch.ones(5, 3, device="jax"), graph + 1)
hidden = model(torch.ones(1, 3, device="jax"))
print(torch.allclose(loss, (hidden**2).mean() * (4 + 1 + 4) / 4))
"""


def test_a_size_that_is_read_and_stays_the_same_is_a_constant(printed: Callable[[str], str]) -> None:
    assert printed(SIZED) == "True 2\nTrue\n"


SIZED_ANEW = """\
import warnings

import torch
import torch.nn as nn
import torchax
from torchax_training import differentiable

torchax.enable_globally()
model = nn.Linear(3, 4).to("jax")


@differentiable
def compute_loss(x, graph):
    hidden = model(x)
    count = int(graph.max().item() + 1)
    return (hidden.new_zeros((count, 4)).index_add_(0, graph, hidden) ** 2).mean()


with warnings.catch_warnings(record=True) as caught:
    for step in range(20):
        graph = torch.tensor([0, 1, 2 + step]).to("jax")
        compute_loss(torch.ones(3, 3, device="jax"), graph).backward()
        if not compute_loss.is_compiled:
            break
said = [str(one.message) for one in caught]
print(step, *(one.partition(": ")[2] for one in said if "call by call" in one))
"""


def test_a_size_that_is_another_each_time_is_no_longer_asked(printed: Callable[[str], str]) -> None:
    assert printed(SIZED_ANEW) == "18 what it asks of tensors keeps changing\n"


MARCHED = """\
import jax
import torch
import torchax
import torchax_training

torchax.enable_globally()
events = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: events.append(event)
)
way, going = torch.zeros(99, device="jax"), torch.ones(99, dtype=torch.bool, device="jax")
speed = torch.arange(1, 100, device="jax") / 50
counts = []
for step in range(40):
    places = going.nonzero(as_tuple=True)[0]
    way[places] += speed[places]
    going[places] = way[places] < 8
    way[going] = way[going] + 0.01
    counts.append(sum("backend_compile" in event for event in events))
print(len(places) < 60, counts[-1] - counts[19], (way >= 8).sum().item() + going.sum().item())
"""


def test_what_values_decide_the_shape_of_is_not_compiled_for_each(printed: Callable[[str], str]) -> None:
    assert printed(MARCHED) == "True 0 99\n"


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


SPREAD = """\
import torch
import torchax
from torchax_training import differentiable

torchax.enable_globally()


@differentiable
def compute_loss(flow, weights):
    weights = torch.softmax(weights.view(2, 1, 9, 8, 8, 8, 12), dim=2)
    around = torch.nn.functional.unfold(8 * flow, [3, 3], padding=1).view(2, 2, 9, 1, 1, 8, 12)
    spread = (weights * around).sum(2).permute(0, 1, 4, 2, 5, 3)
    return spread.reshape(2, 2, 64, 96).pow(2).sum()


torch.manual_seed(0)
flow = torch.randn(2, 2, 8, 12).to("jax").requires_grad_()
weights = torch.randn(2, 576, 8, 12).to("jax").requires_grad_()
for _ in range(6):
    loss = compute_loss(flow, weights)
    loss.backward()
plain = compute_loss.function(flow.detach().cpu(), weights.detach().cpu())
print(torch.allclose(loss.cpu(), plain, rtol=1e-4))
"""


def test_sums_over_seven_dimensions_do_not_end_the_process(printed: Callable[[str], str]) -> None:
    assert printed(SPREAD) == "True\n"


EXPORTED = """\
import copy
import io

import torch
import torchax
from torch import nn
import torchax_training

torchax.enable_globally()
torch.manual_seed(0)
host = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)).eval()
there, x = copy.deepcopy(host).to("jax"), torch.randn(2, 1, 4, 4)
due = host(x)
for traced in (torch.jit.trace(host, x), torch.jit.trace(there, x.to("jax"))):
    place = next(traced.parameters()).device
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    read = torch.jit.load(file, map_location="cpu")
    made = [traced(x.to(place)).cpu(), read(x)]
    print(place.type, *(torch.allclose(one, due, atol=1e-6) for one in made))
"""


def test_modules_are_traced_for_torchscript_on_the_host_and_saved_from_the_device(
    printed: Callable[[str], str],
) -> None:
    assert printed(EXPORTED) == "cpu True True\njax True True\n"
