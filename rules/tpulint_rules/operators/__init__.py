"""Operators that torchax does not support."""
