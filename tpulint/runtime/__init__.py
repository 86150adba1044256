"""How a fixed program gets the runtime torchax-compat: as a dependency, or as a vendored copy."""
