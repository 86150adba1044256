"""What neither raises nor warns, but computes something else."""
