"""One sidecar takes another's place while traffic passes: listening sockets and live connections go from process to
process, with the state of their links.

`messages` are passed on, `connection_state` makes them of a connection at rest, `channel` is the unix socket
between the two, `old_process` and `new_process` are its sides. Requests in flight are never
passed on: they are waited for, since a follower has one fetch in flight and then asks again.
"""
