"""What values are: kinds, and how they flow through expressions, statements and calls."""
