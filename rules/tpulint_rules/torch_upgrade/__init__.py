"""APIs that PyTorch removed, deprecated or changed."""
