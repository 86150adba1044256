"""Train the U-Net of a diffusion model (DDPM) with Adam and an exponential moving average of its weights.

`COMPILE=1` compiles the model with `torch.compile`.
"""

import copy
import math
import os
import time

import torch
import torch.nn.functional as F
from torch import nn

COMPILE = os.environ.get("COMPILE", "0") == "1"
STEPS = int(os.environ.get("STEPS", "40"))
LOG_EVERY = int(os.environ.get("LOG_EVERY", "10"))
BATCH = int(os.environ.get("BATCH", "32"))
SIZE = int(os.environ.get("SIZE", "64"))
WIDTH = int(os.environ.get("WIDTH", "128"))
GROUPS = 8
TIMES = 1000


class ResidualBlock(nn.Module):
    """Two convolutions with an embedding of the time between them, and a residual connection."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(GROUPS, inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(4 * WIDTH, outputs)
        self.norm2 = nn.GroupNorm(GROUPS, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Compute the block for images and the embedding of their times."""
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(time))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return h + self.skip(x)


class UNet(nn.Module):
    """A network that predicts the noise of an image, with three resolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.SiLU(), nn.Linear(4 * WIDTH, 4 * WIDTH))
        self.first = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.down = nn.ModuleList(
            [
                ResidualBlock(WIDTH, WIDTH),
                ResidualBlock(WIDTH, 2 * WIDTH),
                ResidualBlock(2 * WIDTH, 2 * WIDTH),
            ]
        )
        self.middle = ResidualBlock(2 * WIDTH, 2 * WIDTH)
        self.up = nn.ModuleList(
            [
                ResidualBlock(4 * WIDTH, 2 * WIDTH),
                ResidualBlock(4 * WIDTH, WIDTH),
                ResidualBlock(2 * WIDTH, WIDTH),
            ]
        )
        self.last = nn.Conv2d(WIDTH, 3, 3, padding=1)

    def forward(self, x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        """Predict the noise of images at some times."""
        time = self.time(embedding_of(times))
        x, skips = self.first(x), []
        for number, block in enumerate(self.down):
            x = block(F.avg_pool2d(x, 2) if number else x, time)
            skips.append(x)
        x = self.middle(x, time)
        for number, block in enumerate(self.up):
            if number:
                x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = block(torch.cat([x, skips.pop()], dim=1), time)
        return self.last(x)


def embedding_of(times: torch.Tensor) -> torch.Tensor:
    """Compute sines and cosines of times."""
    half = WIDTH // 2
    exponents = torch.arange(half, device=times.device, dtype=torch.float32) / half
    angles = times[:, None].float() * torch.exp(-math.log(10000) * exponents)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


@torch.no_grad()
def update_ema(ema: nn.Module, model: nn.Module, decay: float = 0.999) -> None:
    """Move the averages towards the weights of the model."""
    for average, weight in zip(ema.parameters(), model.parameters()):
        average.mul_(decay).add_(weight, alpha=1 - decay)


def batches() -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Make four batches of images, times and noise."""
    generator = torch.Generator().manual_seed(1)
    shape = (BATCH, 3, SIZE, SIZE)
    return [
        (
            torch.randn(shape, generator=generator),
            torch.randint(0, TIMES, (BATCH,), generator=generator),
            torch.randn(shape, generator=generator),
        )
        for _ in range(4)
    ]


def main() -> None:
    """Train, and print losses and the time of a step."""
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.matmul.allow_tf32 = True
    device = torch.device("cuda")
    model = UNet().to(device)
    ema = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    if COMPILE:
        model = torch.compile(model)
    signal = torch.cumprod(1 - torch.linspace(1e-4, 0.02, TIMES), dim=0).to(device)
    data = batches()
    for step in range(STEPS):
        if step == STEPS // 2:
            torch.cuda.synchronize()
            start = time.perf_counter()
        images, times, noise = (tensor.to(device, non_blocking=True) for tensor in data[step % len(data)])
        share = signal[times][:, None, None, None]
        noisy = share.sqrt() * images + (1 - share).sqrt() * noise
        loss = F.mse_loss(model(noisy, times), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        update_ema(ema, model)
        if step % LOG_EVERY == LOG_EVERY - 1:
            print(f"step {step} loss {loss.item():.5f}")
    torch.cuda.synchronize()
    print(f"ms per step {(time.perf_counter() - start) / (STEPS - STEPS // 2) * 1e3:.3f}")


if __name__ == "__main__":
    main()
