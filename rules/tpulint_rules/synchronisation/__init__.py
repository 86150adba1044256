"""Waiting for the device, and timing it."""
