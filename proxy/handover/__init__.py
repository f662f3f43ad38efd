"""One sidecar takes another's place while traffic passes: listening sockets and live connections go from process to
process, with what their links know.

`messages` are what is passed on, `connection_state` makes them of a connection at rest, `channel` is the unix socket
between the two, `old_process` and `new_process` are its sides. What a connection has in flight is never
passed on: it is waited for, since a follower has one fetch in flight and then asks again.
"""
