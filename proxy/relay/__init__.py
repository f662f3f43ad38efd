"""Carries out what `proxy.throttle` decides, on the bytes of one connection.

A fetch's way through these files:

    connection     a connection's lifetime: dial, holds, drain, its one log line
    poller         wakes directions by epoll, and decides whose turn it is; `reaper` ends connections that stall or idle
    direction      a synchronous state machine: receive, read, send, until something is to be waited for
    requests       reads what the follower sends: frames that pass as they are, and each Fetch that is decided
    fetch_handling decides a replica's Fetch, in slices if it is long; `hold_waits`: what a held one waits for
    responses      reads what the leader sends; `decided_response`: one answer to a decided request
    transfer       moves bytes, through a window of memory or in the kernel; `transport`, `tls_socket`: between what
    in_flight      what both directions share: states, the requests in flight, the memory that all connections may hold

The readers are pure: bytes in, steps out (`direction`). Record bytes stay in reused buffers and never become Python
objects of their own.
"""
