"""Functions of tensors as JAX traces them: what they are given, reach, ask for, and leave behind."""
