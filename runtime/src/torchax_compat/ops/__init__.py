"""Operators of PyTorch that torchax lacks, or for which it gives different results."""
