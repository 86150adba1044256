"""Shapes that depend on data."""
