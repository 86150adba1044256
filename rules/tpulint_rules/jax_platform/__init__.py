"""Platforms and settings of JAX."""
