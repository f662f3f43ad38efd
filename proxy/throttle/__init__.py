"""Deciding: the pure, synchronous inner ring of the sidecar.

- **BudgetNode** and **claim** (package `admission`, which the pipeline's what-if runs too): a role's bytes per second,
  shared by all its connections, and one connection's place in the line for it.
- **Replica** (`replica`): one throttled partition as one connection knows it; in sync, behind, or new.
- **Link** (`link`): one replica fetcher's connection; takes its Fetch requests and the time, and returns
  whether to forward, hold or answer.
- **Demand** and **decision** (`decision`): a request that is being decided, and those three.
- **PendingFetch** (`pending_fetch`): what a forwarded request makes the sidecar do with its response.
- **BudgetTree** (`budget_tree`): the role's budget and those of racks, peers and topics beneath it.
- **PartitionHealth** (`partition_health`) and **PriorityOrder** (`priority_order`): which partitions lack replicas in
  sync, and who goes first.
- **RoleThrottle** (`role_throttle`): the quota in force for a role, its budget and its links.

Nothing in here imports trio, opens a socket, reads a clock or writes a log.
"""
