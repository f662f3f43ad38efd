"""The table of ``status`` for one sidecar or fifty, read from their /throttle.

`rows` asks, chooses, orders and finds problems; `words` and `table` show it. All but `rows.ask_all` is pure.
"""
