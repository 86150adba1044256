"""Data, a model, and starts of the programs whose ranks are processes or devices."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import Dataset

DEVICE = os.environ.get("PROGRAM_DEVICE", "cpu")


class Points(Dataset):
    """Points with classes; their number is no multiple of the number of ranks."""

    def __init__(self, count: int = 45) -> None:
        generator = torch.Generator().manual_seed(3)
        self.x = torch.randn(count, 6, generator=generator)
        self.y = torch.randint(0, 3, (count,), generator=generator)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int):
        return self.x[index], self.y[index], index


class Net(nn.Module):
    """A classifier with batch statistics."""

    def __init__(self, norm: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(6, 16)
        self.norm = nn.BatchNorm1d(16) if norm else nn.Identity()
        self.last = nn.Linear(16, 3)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


def start() -> tuple[int, int]:
    """Start the group, which all programs share; its rank and size."""
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    return dist.get_rank(), dist.get_world_size()


def end(model: nn.Module) -> None:
    """Print the parameters and buffers on rank 0, and wait for the others."""
    if dist.get_rank() == 0:
        for name, value in model.state_dict().items():
            value = value.float()
            print(name, f"{value.sum().item():.5f}", f"{value.square().sum().item():.5f}")
    dist.barrier()
