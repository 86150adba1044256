"""torchax and JAX APIs."""
