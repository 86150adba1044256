"""The emulated accelerator and torchvision's stand-in, each in a process as scripts meet them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tpulint.verify import missing_packages
from tpulint.verify.script import Launch

pytestmark = pytest.mark.skipif(bool(missing_packages()), reason="tpulint[verify] is not installed")


def run(tmp_path: Path, text: str) -> list[str]:
    script = tmp_path / "script.py"
    script.write_text(text)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tpulint.verify.reference", str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_cuda_code_runs_on_the_cpu(tmp_path: Path) -> None:
    text = """\
import sys
import torch

print(torch.cuda.is_available(), "torchax" in sys.modules)
host = torch.zeros(2)
device = torch.device("cuda")
for there in (host.cuda(), host.to("cuda:0"), host.to(device), host.to(device="jax"), host.cuda(0)):
    print(there.device, there is host, there.cuda() is there, end="; ")
there = host.cuda()
there += 1
print(host.tolist(), there.tolist(), there.cpu() is there, host.cpu() is host)
print(torch.ones(2, device="cuda", pin_memory=False).sum(), torch.arange(3, device=0).pin_memory())
net = torch.nn.Linear(2, 2, device="cuda").cuda().to("jax", torch.float64)
print(net(torch.ones(2, device="cuda", dtype=torch.float64)).dtype)
with torch.device("cuda"):
    print(torch.zeros(1).device)
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
begin.record()
with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.device(0):
    torch.cuda.synchronize()
end.record()
print(begin.elapsed_time(end) >= 0)
torch.save(there, sys.argv[0] + ".pt")
print(torch.load(sys.argv[0] + ".pt", map_location="cuda").tolist())
torch.set_default_device("cuda")
print(torch.zeros(1).device)
"""
    moved = "cpu False True; " * 5
    assert run(tmp_path, text) == [
        "True False",
        moved + "[0.0, 0.0] [1.0, 1.0] False False",
        "tensor(2.) tensor([0, 1, 2])",
        "torch.float64",
        "cpu",
        "True",
        "[1.0, 1.0]",
        "cpu",
    ]


def test_host_copies_share_no_memory_with_the_device(tmp_path: Path) -> None:
    text = """\
import torch

moved = torch.ones(2).cuda()
net = torch.nn.Linear(2, 1, bias=False).cuda()
torch.nn.init.ones_(net.weight)
for there in (moved, moved * 2, moved[:1], net.weight.data, net(moved).detach()):
    before = there.tolist()
    there.cpu().zero_()
    there.to("cpu").numpy()[...] = 5
    print(there.tolist() == before)
leaf = torch.ones(2, requires_grad=True)
print(leaf.cpu() is leaf)
"""
    assert run(tmp_path, text) == ["True"] * 6


@pytest.mark.parametrize("decoders", ["", "stand-in"])
def test_images_are_decoded_without_working_torchvision_operators(
    tmp_path: Path, decoders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("PIL")
    monkeypatch.setenv("TPULINT_TORCHVISION_DECODERS", decoders)
    text = """\
from pathlib import Path

import numpy as np
import torch
from PIL import Image
import torchvision
from torchvision.io import ImageReadMode, decode_image, decode_png, read_file, read_image, write_png

pixels = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3) * 4
path = str(Path(__file__).with_name("x.png"))
Image.fromarray(pixels).save(path)
expected = torch.from_numpy(pixels).permute(2, 0, 1)
picture = decode_image(read_file(path))
print(picture.dtype, tuple(picture.shape), torch.equal(picture, expected), picture.is_contiguous())
print(torch.equal(read_image(path), expected), torch.equal(decode_png(read_file(path)), expected))
weights = torch.tensor([9794, 19234, 3740])[:, None, None]
gray = ((expected.long() * weights).sum(0, keepdim=True) // 32768).to(torch.uint8)
for mode in (ImageReadMode.GRAY, "GRAY"):
    print(torch.equal(read_image(path, mode), gray), end=" ")
print(decode_image(path, mode="RGB").shape[0], read_image(path, mode="RGBA")[3].unique().tolist())
write_png(expected.contiguous(), path)
print(torch.equal(read_image(path), expected))
try:
    read_file("nowhere.png")
except RuntimeError as error:
    print("[Errno 2] No such file or directory: 'nowhere.png'" in str(error))
boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30]])
print(torchvision.ops.nms(boxes, torch.tensor([0.8, 0.9, 0.7]), 0.5).tolist())
print(tuple(torchvision.transforms.functional.resize(picture, [2, 2]).shape))
"""
    assert run(tmp_path, text) == [
        "torch.uint8 (3, 4, 5) True False",
        "True True",
        "True True 3 [255]",
        "True",
        "True",
        "[1, 2]",
        "(3, 2, 2)",
    ]


def test_modules_created_in_forward_are_not_recorded_as_state(tmp_path: Path) -> None:
    text = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)

    def forward(self, x):
        return torch.nn.Linear(2, 1)(self.inner(x))


Net()(torch.ones(3, 2)).sum().backward()
"""
    (tmp_path / "script.py").write_text(text)
    record = Launch(dict(os.environ), 120, ()).reference(tmp_path, "script.py").record
    assert ["Net"] == [state.module for state in record.states]
