"""Training steps and models that are not compiled."""
