"""Code for torch_xla, the other backend of PyTorch for TPUs."""
