"""Training steps: what leads from modules to a loss, and how a function is made of it."""
