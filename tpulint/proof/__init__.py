"""`tpulint verify` for users: runs their programs and modules before and after `fix`, and compares.

`verification.verify` does that, and `results` has the values that it gives, and their JSON.
User code runs only in processes of its own; whoever imports this package imports neither torch nor JAX.
"""
