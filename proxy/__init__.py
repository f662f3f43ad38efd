"""The sidecar: bounds a Kafka broker's replication traffic in bytes per second, outside the broker.

Nouns, from the inside out:

- **Role** (`roles`): leader, for what this broker sends to followers; follower, for what it fetches.
- **Quotas** (`quotas`): what an operator wants of each role, an immutable snapshot of quotas.toml.
- **Throttle** (`throttle`): the pure core; decides by budget and turn what each fetch may ask for.
- **Relay** (`relay`): the bytes of a connection, both ways, as the throttle decided.
- **Clients** (`clients`): client quotas, for producers and consumers on the same listener.
- **Sidecar** (`serving`): listeners, connections, live quotas, HTTP, signals: one process.

Start with docs/architecture.md, then `throttle/link.py` and its tests. `throttle` and `quotas` are synchronous and
know no Trio; `protocol` is another package and knows nothing of throttling. tests/test_architecture.py holds this.
"""
