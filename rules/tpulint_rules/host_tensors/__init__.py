"""Host tensors in traced code."""
