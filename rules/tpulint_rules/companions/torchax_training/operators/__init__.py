"""Operators of torch that torchax lacks or computes otherwise."""
