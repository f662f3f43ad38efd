"""The private interface of a sidecar: sockets in a directory that only its own user and root can enter.

    control.sock     HTTP/1.1 with the routes of the public pages and those that change something; no token is needed
    handover.sock    hand-over between two processes of a sidecar (`proxy.handover.channel`)

Who may connect is decided by the file system (the directory has mode 0700) and checked once more by the peer's
credentials (SO_PEERCRED): its effective user must be the sidecar's own or root.
"""
