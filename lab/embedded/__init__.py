"""A leader and a follower of our own that speak real Fetch over real sockets, for machines without Java.

They behave as Kafka's do in what matters to a throttle: KIP-74's limits and "at least one message", the purgatory's
wait for min_bytes, a fetcher with one request in flight that rejects an incomplete full response and backs off
after a broken connection. Used by `throttle-sidecar demo --kafka embedded` and by the sidecar's own tests.
"""
