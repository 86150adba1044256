"""Several devices, kernels and libraries for GPUs."""
