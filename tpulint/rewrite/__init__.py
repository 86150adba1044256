"""Fixes as rewrites of LibCST nodes: planned as plain values, found again by path, applied in one pass."""
