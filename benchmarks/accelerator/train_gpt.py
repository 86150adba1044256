"""Train GPT-2 (124 million parameters) on random tokens with AdamW and gradient clipping.

`BF16=1` trains under bfloat16 autocast, and `COMPILE=1` compiles the model with `torch.compile`.
"""

import os
import time

import torch
import torch.nn.functional as F
from torch import nn

BF16 = os.environ.get("BF16", "0") == "1"
COMPILE = os.environ.get("COMPILE", "0") == "1"
STEPS = int(os.environ.get("STEPS", "40"))
LOG_EVERY = int(os.environ.get("LOG_EVERY", "10"))
BATCH = int(os.environ.get("BATCH", "8"))
LENGTH = int(os.environ.get("LENGTH", "1024"))
LAYERS = int(os.environ.get("LAYERS", "12"))
WIDTH = int(os.environ.get("WIDTH", "768"))
VOCABULARY = int(os.environ.get("VOCABULARY", "50304"))
HEAD_SIZE = 64


class Layer(nn.Module):
    """Causal self-attention and a feed-forward network, each with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the layer for activations of shape (batch, length, width)."""
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, width // HEAD_SIZE, HEAD_SIZE)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """GPT-2 whose output layer shares its weight with the embedding of the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(self._initialize)

    def _initialize(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Compute the logits of the next tokens."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def batches() -> list[torch.Tensor]:
    """Make four batches of tokens, each with one token more than the length."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), generator=generator) for _ in range(4)]


def main() -> None:
    """Train, and print losses and the time of a step."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    device = torch.device("cuda")
    model = GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    if COMPILE:
        model = torch.compile(model)
    data = batches()
    for step in range(STEPS):
        if step == STEPS // 2:
            torch.cuda.synchronize()
            start = time.perf_counter()
        tokens = data[step % len(data)].to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=BF16):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.view(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % LOG_EVERY == LOG_EVERY - 1:
            print(f"step {step} loss {loss.item():.5f}")
    torch.cuda.synchronize()
    print(f"ms per step {(time.perf_counter() - start) / (STEPS - STEPS // 2) * 1e3:.3f}")


if __name__ == "__main__":
    main()
