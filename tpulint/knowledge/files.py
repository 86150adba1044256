"""What writes files."""

from __future__ import annotations

#: What pickles a value into a file.
SAVE = frozenset({"torch.save", "pickle.dump", "pickle.dumps"})
