"""Files around the code: dependencies, images, scripts, variables and configurations.

`kinds` says which files these are by their names, and each reader takes one kind apart: into requirements,
addresses of packages, images, variables, commands and settings, with their spans.
What a reader does not understand is left out.
"""
