"""Operators' files: how they are read, watched and replaced, and what a TOML document may cost before it is parsed."""
