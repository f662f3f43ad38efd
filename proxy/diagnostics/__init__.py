"""Read-only figures of a role's throttle, for people: metrics, /throttle, status and the checks of quotas.

- `replica_stats`: how many replicas there are, how far behind, and those furthest behind.
- `role_rates`: bytes per second of each role, in parts, and of each partition.
- `quota_diagnostics`: quotas that have hardly the intended effect.

Nothing here changes a decision. Pure: time is an argument, and long work is a generator whose caller goes on with it.
"""
