"""Overrides as commands make, undo and list them: at one sidecar or at many, at once.

`asking` is the text that an operator types, as changes; `members` is whom to ask and asks them all; `words` is what the
answers say, alike ones once. The sidecar's side is `proxy.quotas.override`.
"""
