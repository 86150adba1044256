"""Devices of tensors and modules."""
