"""Views, and writes into tensors."""
