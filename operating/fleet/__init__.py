"""The sidecars that a command is for: this host's, those named by URL, or all that fleet.toml lists.

`members` reads fleet.toml and asks them all at once; `replies` describes their answers, alike ones once.
"""
