"""What the code means, computed once per file on the `ast`: names, kinds of values, devices, trace reach.

`module` is the façade on one file; `belief` tells people what it holds a line to be.
"""
