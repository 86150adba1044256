"""Python values needed while tracing."""
