"""Training steps that run operation by operation."""
