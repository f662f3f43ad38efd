"""The panels of rates that set themselves, and of rates and priorities inside a role's quota. Empty where quotas.toml
has none of them.

Invariant: as in `panels`.
"""

from __future__ import annotations

from .panel import PREFIX, ROLE, Panel, Query, Row

RATES = Row(
    "Rates that set themselves",
    (
        Panel(
            "Deadline",
            "binBps",
            "Where the rate is a deadline: what is needed to be done in time, and the rate chosen. Needed above "
            "chosen: the most is not enough, it will be late.",
            (
                Query(f"{PREFIX}deadline_needed_bytes_per_second{{{ROLE}}}", "{{instance}} {{role}} needed"),
                Query(
                    f"{PREFIX}limit_bytes_per_second{{{ROLE}}} and on (job, instance, role) "
                    f"{PREFIX}deadline_timestamp_seconds",
                    "{{instance}} {{role}} chosen",
                ),
            ),
        ),
        Panel(
            "Rate that does not hurt",
            "binBps",
            "Where the rate is automatic: what was chosen. Small teeth: it stays near what hurts.",
            (Query(f"{PREFIX}auto_rate_bytes_per_second{{{ROLE}}}", "{{instance}} {{role}}"),),
        ),
        Panel(
            "What holds it down",
            "short",
            "1 for the signal that keeps a rate that does not hurt from being more; none while it is being raised.",
            (Query(f"{PREFIX}auto_limited_by{{{ROLE}}} == 1", "{{instance}} {{role}} {{signal}}"),),
        ),
        Panel(
            "Lag in bytes",
            "bytes",
            "Messages behind, at the size that each replica's messages had so far. Normal: falling.",
            (Query(f"{PREFIX}lag_bytes{{{ROLE}}}", "{{instance}} {{role}}"),),
        ),
        Panel(
            "Too late for its deadline",
            "short",
            "1 where catch-up will not be done by its deadline even at the most its rate may be, or was not.",
            (Query(f"{PREFIX}deadline_late{{{ROLE}}}", "{{instance}} {{role}}"),),
            alert="ReplicationThrottleDeadlineLate",
        ),
    ),
)

FINER_RATES = Row(
    "Inside the quota",
    (
        Panel(
            "Rates of racks, peers and topics",
            "binBps",
            "What passed under each rate inside the role's quota, and that rate. Normal: at the rate or below it.",
            (
                Query(
                    f"rate({PREFIX}bound_throttled_bytes_total{{{ROLE}}}[$__rate_interval])",
                    "{{instance}} {{role}} {{kind}} {{name}}",
                ),
                Query(
                    f"{PREFIX}bound_limit_bytes_per_second{{{ROLE}}}", "{{instance}} {{role}} {{kind}} {{name}} rate"
                ),
            ),
            alert="ReplicationThrottlePinnedInside",
        ),
        Panel(
            "Bytes between racks",
            "binBps",
            "What goes between this broker's rack and another, in sync or not. Without racks: nothing.",
            (
                Query(
                    f"rate({PREFIX}cross_rack_bytes_total{{{ROLE}}}[$__rate_interval])",
                    "{{instance}} {{role}} {{direction}}",
                ),
            ),
        ),
        Panel(
            "Replicas in need",
            "short",
            "Throttled replicas behind, of partitions under min ISR or under-replicated, which go first.",
            (Query(f"{PREFIX}replicas_in_need{{{ROLE}}}", "{{instance}} {{role}} {{need}}"),),
        ),
    ),
)
