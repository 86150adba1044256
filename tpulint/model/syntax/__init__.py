"""What the tree alone tells: parents, blocks, imports, comments."""
