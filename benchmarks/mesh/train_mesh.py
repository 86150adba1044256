"""Train a small transformer on several GPUs; `WAY` is `ddp`, `fsdp` or `plan` (tensor parallelism)."""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

WAY = os.environ.get("WAY", "ddp")
BATCH, LENGTH, LAYERS, WIDTH, VOCABULARY, HEAD = 2, 128, 2, 256, 4096, 64


class Layer(nn.Module):
    """Causal self-attention and a feed-forward network, each with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the layer for activations of shape (batch, length, width)."""
        h = self.norm1(x)
        q, k, v = (layer(h).unflatten(-1, (-1, HEAD)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    """A decoder without positions."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Compute the logits of tokens of shape (batch, length)."""
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def main() -> None:
    """Train for some steps."""
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    model: nn.Module = Model().to("cuda")
    samples, rank = dist.get_world_size(), dist.get_rank()
    if WAY == "plan":
        samples, rank = dist.get_world_size() // 4, dist.get_rank() // 4
        mesh = init_device_mesh("cuda", (samples, 4), mesh_dim_names=("dp", "tp"))
        for layer in model.layers:
            first = {name: ColwiseParallel() for name in ("q", "k", "v", "up")}
            parallelize_module(
                layer, mesh["tp"], {**first, "o": RowwiseParallel(), "down": RowwiseParallel()}
            )
    elif WAY == "fsdp":
        for layer in model.layers:
            fully_shard(layer)
        fully_shard(model)
    else:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, VOCABULARY, (8 * BATCH * samples, LENGTH + 1))
    data = TensorDataset(tokens[:, :-1], tokens[:, 1:])
    sampler = DistributedSampler(data, num_replicas=samples, rank=rank)
    for step, (x, y) in enumerate(DataLoader(data, batch_size=BATCH, sampler=sampler, drop_last=True)):
        x, y = x.to("cuda"), y.to("cuda")
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
