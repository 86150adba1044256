"""Entering the torchax environment."""
