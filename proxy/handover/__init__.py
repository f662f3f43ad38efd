"""One sidecar takes another's place while traffic passes: listening sockets and live connections go from process to
process, with what their links know.

`states` are what is passed on, `link_state` takes them off a link and puts them onto one, `channel` is the unix socket
between the two, `giving` the old process' side and `taking` the new one's. What a connection has in flight is never
passed on: it is waited for, since a follower has one fetch in flight and then asks again.
"""
