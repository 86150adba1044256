"""Multiple devices, GPU kernels and GPU libraries."""
