"""Admission: how many throttled bytes may move now, and whose turn it is.

- **SimpleRate** (`simple_rate`): Kafka's arithmetic behind every replication quota.
- **Token bucket** (`token_bucket`): what the `strict` policy allows, with debt.
- **BudgetNode** (`shares`): one rate, shared by the connections that it concerns; `strict` or `kip73` (`budget`). A
  role's is the root of a tree, those of racks, peers and topics are beneath it.
- **Claim** (`shares`): one connection's place among those that want bytes of one node.
- **Fetcher** (`fetcher`): one connection: where its fetch is, and what its grants brought.
- **BudgetPath** (`budget_path`): one connection's claims in all nodes that bound it, of which a grant is the least.
- **Wish** (`wishes`): what one replica asks for, and how bytes are shared out among wishes.

It is a package of its own because the sidecar and the pipeline both run it, and neither imports the other: the sidecar
decides with it, and the pipeline's `replay` tells with it what another quota would have done. Nothing here knows a
frame, a file, a socket or the clock.
"""
