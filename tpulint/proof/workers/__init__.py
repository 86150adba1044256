"""Runs in processes of its own: the only part that imports the user's code, torch, torchax and JAX."""
