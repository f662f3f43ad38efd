"""The cost of encryption: TLS 1.3 with AES-256-GCM on both legs, through the sidecar and through other proxies.

    python -m benchmarks.tls --help

A leader and a follower of our own (`ends`) speak Fetch v3 inside TLS. Each of the `ways` ends TLS on one side and
begins it anew on the other. So each connection that is relayed takes two handshakes.
"""
