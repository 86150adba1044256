"""What torchax needs before anything can run."""
