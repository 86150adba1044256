"""What a program does in several processes."""
