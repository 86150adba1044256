"""Programs that use a TPU through torch_xla or TorchTPU."""
