"""Reading and preparing data."""
