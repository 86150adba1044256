"""What the runtime changes in torch, torchax and JAX: declarations, and how they are applied and restored."""
