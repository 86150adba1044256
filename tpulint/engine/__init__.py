"""Runs the rules over files: selecting, summarising, linking, judging, fixing.

The cache and the worker processes live here and nowhere else.
"""
