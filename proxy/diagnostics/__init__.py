"""Read-only figures of a role's throttle, for people: metrics, /throttle, status and the checks of quotas.

- `replica_stats`: how many replicas there are, how far behind, and those furthest behind.
- `partition_rates`: bytes per second of each partition. `role_rates`: what passes under a role's quota.
- `quota_diagnostics`: quotas that do not do what was probably meant.

Nothing here changes a decision. Pure: time is an argument, and long work is a generator whose caller goes on with it.
"""
