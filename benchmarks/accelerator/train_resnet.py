"""Train ResNet-50 on random images with SGD; `COMPILE=1` compiles the model with `torch.compile`."""

import os
import time

import torch
from torch import nn

COMPILE = os.environ.get("COMPILE", "0") == "1"
STEPS = int(os.environ.get("STEPS", "40"))
LOG_EVERY = int(os.environ.get("LOG_EVERY", "10"))
BATCH = int(os.environ.get("BATCH", "64"))
SIZE = int(os.environ.get("SIZE", "224"))
WIDTH = int(os.environ.get("WIDTH", "64"))
BLOCKS = [int(count) for count in os.environ.get("BLOCKS", "3,4,6,3").split(",")]
CLASSES = 100


class Bottleneck(nn.Module):
    """Three convolutions with a residual connection; the second one has the stride."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the block for images."""
        identity = x if self.shortcut is None else self.shortcut(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """ResNet-50, where `BLOCKS` and `WIDTH` have their default values."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, WIDTH, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(WIDTH),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        stages, inputs = [], WIDTH
        for stage, count in enumerate(BLOCKS):
            width = WIDTH << stage
            for block in range(count):
                stages.append(Bottleneck(inputs, width, stride=2 if stage and not block else 1))
                inputs = 4 * width
        self.blocks = nn.Sequential(*stages)
        self.head = nn.Linear(inputs, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Compute the logits of the classes."""
        return self.head(self.blocks(self.stem(images)).mean(dim=(2, 3)))


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Make four batches of images and labels."""
    generator = torch.Generator().manual_seed(1)
    return [
        (
            torch.randn(BATCH, 3, SIZE, SIZE, generator=generator),
            torch.randint(0, CLASSES, (BATCH,), generator=generator),
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
    model = ResNet().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    if COMPILE:
        model = torch.compile(model)
    data = batches()
    model.train()
    for step in range(STEPS):
        if step == STEPS // 2:
            torch.cuda.synchronize()
            start = time.perf_counter()
        images, labels = data[step % len(data)]
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % LOG_EVERY == LOG_EVERY - 1:
            print(f"step {step} loss {loss.item():.5f}")
    torch.cuda.synchronize()
    print(f"ms per step {(time.perf_counter() - start) / (STEPS - STEPS // 2) * 1e3:.3f}")


if __name__ == "__main__":
    main()
