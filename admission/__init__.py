"""Admission: how many throttled bytes may move now, and whose turn it is.

- **SimpleRate** (`simple_rate`): Kafka's arithmetic behind every replication quota.
- **Token bucket** (`token_bucket`): what the `strict` policy allows, with debt.
- **Claim** (`turns`): one connection's place among those that want throttled bytes.
- **Stakes** (`stakes`): one connection's claims in several budgets at once, of which a grant is the least.
- **Budget** (`budget`): a role's bytes per second, shared by all its connections; `strict` or `kip73`.

It is a package of its own because the sidecar and the pipeline both run it, and neither imports the other: the sidecar
decides with it, and the pipeline's `replay` tells with it what another quota would have done. Nothing here knows a
frame, a file, a socket or the clock.
"""
