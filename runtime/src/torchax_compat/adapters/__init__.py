"""The private names of torch, torchax and JAX that the runtime uses; no other module imports any.

`torch_internals`, `torchax_internals` and `jax_internals` have private functions and classes under names of
their own.
`instance_attributes` lists the private attributes that other modules read from instances.
"""
