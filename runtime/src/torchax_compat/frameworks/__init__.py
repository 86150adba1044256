"""Training frameworks that call the program's model themselves."""
