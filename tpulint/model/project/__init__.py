"""What files tell each other, and the project that they make together."""
