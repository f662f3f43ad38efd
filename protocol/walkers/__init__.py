"""Flat, resumable parsers generated from Structs. Must not know any message."""
