"""How JAX traces functions: their inputs, the Python values that they need, and their side effects."""
