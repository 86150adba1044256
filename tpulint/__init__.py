"""Find what a PyTorch CUDA program does differently on TPU, and rewrite it for torchax."""

__version__ = "0.1.0"
