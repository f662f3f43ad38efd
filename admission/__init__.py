"""Admission: how many throttled bytes may move now, and whose turn it is.

- **SimpleRate** (`simple_rate`): Kafka's arithmetic behind every replication quota.
- **Token bucket** (`token_bucket`): what the `strict` policy allows, with debt.
- **Claim** (`turns`): one connection's place in the line.
- **Budget** (`budget`): a role's bytes per second, shared by all its connections; `strict` or `kip73`.

A package of its own because two parties run it and neither may import the other: the sidecar, to decide, and the
pipeline's `replay`, to tell what another quota would have done. Nothing here knows a frame, a file, a socket or the
clock.
"""
