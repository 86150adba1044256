"""What names mean in a file: scopes, qualified names, references, annotations."""
