"""torchvision in the torchax environment."""
