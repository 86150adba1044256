"""The rules that come with tpulint, a package a family, a module a rule."""
