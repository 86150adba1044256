"""Many devices, and kernels that were written for one kind of them."""
