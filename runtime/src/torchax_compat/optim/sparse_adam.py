"""`torch.optim.SparseAdam` for the dense gradients of embeddings with `sparse=True`.

JAX's gradients of embeddings are dense, and PyTorch's `SparseAdam` rejects them.
Rows with a gradient of zero, which no index selected, are not changed, and neither are their averages.
"""

from __future__ import annotations

from typing import Any

import torch

from ..patches.declarations import TORCH, patch

_step = torch.optim.SparseAdam.step


@patch(
    "torch.optim:SparseAdam.step",
    why="PyTorch raises for dense gradients, and those that JAX computes for embeddings are dense.",
    upstream=TORCH + "optim/sparse_adam.py",
)
@torch.no_grad()
def _stepped(optimizer: torch.optim.Optimizer, closure: Any = None) -> Any:
    """`SparseAdam.step`."""
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"]]
    if any(gradient is not None and gradient.is_sparse for gradient in gradients):
        return _step(optimizer, closure)
    loss = None
    if closure is not None:
        with torch.enable_grad():
            loss = closure()
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                _step_of(p, optimizer.state[p], group)
    return loss


def _step_of(parameter: Any, state: Any, group: Any) -> None:
    gradient = -parameter.grad if group["maximize"] else parameter.grad
    if not state:
        state["step"] = 0
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
    state["step"] += 1
    beta1, beta2 = group["betas"]
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    chosen = (gradient != 0).reshape(len(gradient), -1).any(1)
    chosen = chosen.reshape(-1, *[1] * (gradient.ndim - 1))
    mean.copy_(torch.where(chosen, mean + (gradient - mean) * (1 - beta1), mean))
    square.copy_(torch.where(chosen, square + (gradient * gradient - square) * (1 - beta2), square))
    rate = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
    change = rate * mean / (square.sqrt() + group["eps"])
    parameter.copy_(torch.where(chosen, parameter - change, parameter))
