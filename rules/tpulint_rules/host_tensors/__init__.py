"""Tensors that are made on the host inside traced code."""
