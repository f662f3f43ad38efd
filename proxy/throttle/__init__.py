"""Deciding: the pure, synchronous inner ring of the sidecar.

- **Link** (`link`): one replica fetcher's connection; takes its Fetch requests and the time, and returns
  whether to forward, hold or answer (`decision`); `link_session`: its part in a fetch session.
- **Replica** (`replica`, `replicas`): one throttled partition as one connection knows it; in sync, behind, or new.
- **BudgetTree** (`budget_tree`): the role's budget and those of racks, peers and topics beneath it, nodes of package
  `admission`, which the pipeline's what-if runs too. **BudgetClaim** (`budget_claim`): one connection's place in line
  for them. **ServiceOrder** (`service_order`): its replicas, the one served least first; **PriorityOrder**
  (`priority_order`): those in need before them.
- **PendingFetch** (`pending_fetch`): a forwarded request (`request_builder`) and what is to be done with its response.
- **RoleThrottle** (`role_throttle`): the quota in force for a role, its lists (`throttled_lists`), its budget and its
  links.

Nothing in here imports trio, opens a socket, reads a clock or writes a log.
"""
