"""Parameters that a plan shards over some ranks, with batches over others: a transformer, and collectives."""

import torch
import torch.distributed as dist
from common import DEVICE, start
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torchax_compat import compile_optimizer, differentiable


class Sentences(Dataset):
    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(3)
        self.tokens = torch.randint(0, 32, (48, 9), generator=generator)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int):
        return self.tokens[index, :-1], self.tokens[index, 1:]


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.o = nn.Linear(width, width)
        self.ff_norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (p(h).unflatten(-1, (-1, 8)).transpose(1, 2) for p in (self.q, self.k, self.v))
        weights = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1)
        x = x + self.o((weights @ v).transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.ff_norm(x))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 32)
        self.blocks = nn.ModuleList([Block(32), Block(32)])
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 32, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@differentiable
def compute_loss(model, x, y):
    return functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def parallelized(model, mesh, of_sequence):
    if of_sequence:
        outside = {
            "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        }
        inside = {
            "norm": SequenceParallel(),
            "ff_norm": SequenceParallel(),
            "q": ColwiseParallel(input_layouts=Shard(1)),
            "k": ColwiseParallel(input_layouts=Shard(1)),
            "v": ColwiseParallel(input_layouts=Shard(1)),
            "o": RowwiseParallel(output_layouts=Shard(1)),
            "up": ColwiseParallel(input_layouts=Shard(1)),
            "down": RowwiseParallel(output_layouts=Shard(1)),
        }
    else:
        outside = {"head": ColwiseParallel(output_layouts=Replicate())}
        inside = {
            **dict.fromkeys("qkv", ColwiseParallel()),
            "o": RowwiseParallel(),
            "up": ColwiseParallel(),
            "down": RowwiseParallel(),
        }
    parallelize_module(model, mesh, outside)
    for block in model.blocks:
        parallelize_module(block, mesh, inside)
    return model


def trained(model, loader, clip, device):
    optimizer = compile_optimizer(torch.optim.AdamW(model.parameters(), lr=0.01))
    for x, y in loader:
        optimizer.zero_grad()
        loss = compute_loss(model, x.to(device), y.to(device))
        loss.backward()
        if clip:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
            if dist.get_rank() == 0:
                print(f"norm {norm.item():.4f}")
        optimizer.step()
        if dist.get_rank() == 0:
            print(f"loss {loss.item():.5f}")
    return loss


def sums(model):
    for name, value in model.state_dict().items():
        value = value.full_tensor() if isinstance(value, DTensor) else value
        if dist.get_rank() == 0:
            print(name, tuple(value.shape), f"{value.square().sum().item():.4f}")


def main():
    start()
    world = dist.get_world_size()
    model_size = 2
    mesh = init_device_mesh(DEVICE, (world // model_size, model_size), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    data = Sentences()
    sampler = DistributedSampler(data, mesh["dp"].size(), mesh["dp"].get_local_rank(), shuffle=False)
    loader = DataLoader(data, batch_size=8, sampler=sampler, drop_last=True)
    for of_sequence in (False, True):
        model = parallelized(Model().to(DEVICE), mesh["tp"], of_sequence)
        fully_shard(model, mesh=mesh["dp"])
        loss = trained(model, loader, clip=of_sequence, device=DEVICE)
        sums(model)
        if dist.get_rank() == 0:
            print("placed", model.blocks[0].q.weight.to_local().shape[1], loss.shape)
    for group in (None, mesh["dp"].get_group(), mesh["tp"].get_group()):
        total = loss.detach().clone()
        dist.all_reduce(total, group=group)
        if dist.get_rank() == 0:
            print(f"total {total.item():.5f}")
    whole = torch.arange(24.0).reshape(4, 6)
    part = distribute_tensor(whole.to(DEVICE), mesh["tp"], [Shard(1)])
    square = (part @ part.T).full_tensor()
    if dist.get_rank() == 0:
        print(square.sum().item(), tuple(part.to_local().shape), part.placements, part.shape)
    dist.barrier()
