"""Acting: what the decisions of `proxy.throttle` do to the bytes of one connection.

A fetch's way through these files, and each file's one thought:

    connection ─ a connection's lifetime: dial, holds, drain, its one log line
    poller     ─ wakes directions by epoll; `share`: whose turn it is; `caretaker`: who stalls, who is idle
    direction  ─ a synchronous state machine: receive, read, send, until something is to be waited for
    requests   ─ reads what the follower sends: passes, decides, holds; `glance`: frames that pass as they are
    responses  ─ reads what the leader sends; `answer`: one answer to a decided request, by its `walk` and its `edits`
    transfer   ─ how bytes go: a `window` of them in memory, or by the kernel; `transport`: what they go between
    exchange   ─ what both directions share: the requests in flight; `buffers`: what all connections may hold

The readers are pure: bytes in, steps out (`reading`). Record bytes stay in reused buffers and never become Python
objects of their own.
"""
