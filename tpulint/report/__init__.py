"""Findings to text: one module for each form, each a function from values to a string."""
