"""Values that Python wants while there are only tracers."""
