"""What of torch has no lowering on torchax, or gives something else there."""
