"""CUDA synchronization, timing, memory and precision."""
