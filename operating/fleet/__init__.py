"""The sidecars that a command is for: one of this host, those named by URL, or all that fleet.toml lists.

`file` reads fleet.toml; `members` asks them all at once; `replies` describes their answers, alike ones once.
"""
