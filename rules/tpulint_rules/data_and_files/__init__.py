"""Data loading, images and checkpoints."""
