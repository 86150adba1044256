"""Gradients as PyTorch defines them, where JAX computes them."""
