"""Files around the code."""
