"""Data loading, and files of tensors."""
