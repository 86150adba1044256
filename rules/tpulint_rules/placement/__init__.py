"""Where tensors and modules are put."""
