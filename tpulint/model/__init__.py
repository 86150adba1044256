"""What the code means, computed once per file on the `ast`: names, scopes, kinds of values, trace reach."""
