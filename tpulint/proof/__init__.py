"""`tpulint verify`: runs users' programs and modules before and after `fix`, and compares the results.

`verification.verify` is the entry point; `results` has its results and their JSON.
User code runs only in separate processes, and this package imports neither torch nor JAX.
"""
