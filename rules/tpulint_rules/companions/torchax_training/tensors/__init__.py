"""Tensors of torchax that behave as torch's do, and ways to them that take less time."""
