"""What encryption costs: TLS 1.3 with AES-256-GCM on both legs, through the sidecar and through what people run.

    python -m benchmarks.tls --help

A leader and a follower of our own (`ends`) speak Fetch v3 inside TLS; each of the `ways` ends it on one side and begins
it on the other. A connection that is relayed is thus two handshakes.
"""
