"""What makes training on torchax slow."""
