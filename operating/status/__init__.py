"""The table of ``status`` for one sidecar or fifty, read from their /throttle.

`answers` asks; `rows` chooses and orders, `amiss` finds what is wrong, `words` and `table` show it. Everything but
`answers` is pure.
"""
