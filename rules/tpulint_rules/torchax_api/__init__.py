"""Names and habits of torchax and JAX that are out of date."""
