"""Optimizers whose steps are compiled, and those that torchax cannot do."""
