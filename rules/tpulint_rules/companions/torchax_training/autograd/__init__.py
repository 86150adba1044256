"""Gradients as torch defines them, where JAX takes them."""
