"""The version of torchax-compat."""

__version__ = "0.1.0"
