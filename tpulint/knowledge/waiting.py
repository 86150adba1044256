"""How the host waits for the device."""

#: 3000 arrays that are ready take 0.5 ms; what is donated or dropped is not among them.
WAIT_FOR_ALL = "jax.block_until_ready(jax.live_arrays())"
WAITS = frozenset({"jax.block_until_ready", "torch.cuda.synchronize", "torchax.interop.call_jax"})
