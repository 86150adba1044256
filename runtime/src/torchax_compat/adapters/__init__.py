"""The private names of torch, torchax and JAX that the runtime uses; no other module names any."""
