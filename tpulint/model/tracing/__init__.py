"""What is traced: how tracing gets to a function, and what keeps it away."""
