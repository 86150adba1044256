"""Optimizers with compiled steps, and optimizers that torchax does not support."""
