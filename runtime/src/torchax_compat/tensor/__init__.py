"""torchax tensors that behave as PyTorch's do, with less overhead for each call."""
