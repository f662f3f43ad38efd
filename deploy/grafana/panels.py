"""The dashboard's panels, each with its question, its unit and its expressions. Data, no Grafana.

The panels' descriptions are what an operator reads when hovering over them, so they say what is normal. Invariant: an
expression uses metrics of docs/metrics.md, or what deploy/prometheus records; `$cluster`, `$instance` and
`$role` are the dashboard's variables.
"""

from __future__ import annotations

from .panel import CLUSTER, ONE, PREFIX, ROLE, Panel, Query, Row


def _of_role(expression: str, role: str) -> str:
    """Return one of KIP-73's gauges, which tell the role by their name, with a label that `$role` chooses by."""
    labelled = f'label_replace({expression}, "role", "{role}", "", "")'
    return f"{labelled} and on (job, instance, role) {PREFIX}limit_bytes_per_second{{{ROLE}}}"


AT_A_GLANCE = Row(
    "At a glance",
    (
        Panel(
            "Replicas behind",
            "short",
            "Throttled replicas that are catching up, by role: where both ends have sidecars, each sees the same "
            "replica. 0: all are in sync, a throttle is not needed any more.",
            (Query(f'sum by (role) ({PREFIX}replicas{{{ROLE}, in_sync="false"}})', "{{role}}"),),
            "stat",
            worries=False,
        ),
        Panel(
            "Time left",
            "s",
            "Lag over the speed at which it shrank in five minutes, of the slowest. Empty while the lag of any "
            "sidecar does not shrink.",
            (
                Query(
                    f"max(({PREFIX}replica_lag_messages{{{ROLE}}} > 0)"
                    f" / (-deriv({PREFIX}replica_lag_messages{{{ROLE}}}[5m]) > 0))"
                    f" unless on () (count(({PREFIX}replica_lag_messages{{{ROLE}}} > 0)"
                    f" and (deriv({PREFIX}replica_lag_messages{{{ROLE}}}[5m]) >= 0)) > 0)",
                    "slowest",
                ),
            ),
            "stat",
            worries=False,
        ),
        Panel(
            "Enforcing",
            "bool_yes_no",
            "No: some sidecar only observes (mode.enforce = false).",
            (Query(f"min({PREFIX}enforcing{{{ONE}}})", "enforcing"),),
            "stat",
        ),
        Panel(
            "Conditions",
            "short",
            "What is wrong with the sidecars, by name; `throttle-sidecar status` says since when and what to do.",
            (Query(f'sum by (name) ({PREFIX}conditions{{{ONE}, severity!="note"}}) > 0', "{{name}}"),),
            "stat",
        ),
        Panel(
            "Under min ISR",
            "short",
            "Replicas behind whose partitions have fewer replicas in sync than min.insync.replicas: producers with "
            "acks=all are refused there.",
            (Query(f'sum({PREFIX}replicas_in_need{{{ROLE}, need="under-min-isr"}})', "under min ISR"),),
            "stat",
        ),
        Panel(
            "Overrides in force",
            "short",
            "Made by commands above quotas.toml, by label; `throttle-sidecar history` says by whom and why.",
            (Query(f"sum by (label) ({PREFIX}overrides{{{ONE}}})", "{{label}}"),),
            "stat",
            worries=False,
        ),
    ),
)

THROTTLE = Row(
    "Throttle",
    (
        Panel(
            "Rate and quota",
            "binBps",
            "Throttled bytes per second over KIP-73's window of 11 seconds, and the quota. Normal: on the quota's line "
            "while replicas are behind, below it otherwise. Above it: replicas in sync, which are never held back.",
            (
                Query(_of_role(f"LeaderReplicationThrottledRate{{{ONE}}}", "leader"), "{{instance}} leader"),
                Query(_of_role(f"FollowerReplicationThrottledRate{{{ONE}}}", "follower"), "{{instance}} follower"),
                Query(f"{PREFIX}limit_bytes_per_second{{{ROLE}}} < +Inf", "{{instance}} {{role}} quota"),
            ),
            alert="ReplicationThrottlePinned",
        ),
        Panel(
            "In sync and catching up",
            "binBps",
            "Whose bytes the quota is used for. In-sync traffic alone near the quota leaves nothing for catching up.",
            (
                Query(
                    f"sum by (instance, role, in_sync)"
                    f" (rate({PREFIX}throttled_bytes_total{{{ROLE}}}[$__rate_interval]))",
                    "{{instance}} {{role}} in sync: {{in_sync}}",
                ),
            ),
        ),
        Panel(
            "Lag",
            "short",
            "Messages that throttled replicas are behind. Normal: falling. Level or rising at a quota that is used up: "
            "it is not above what producers write.",
            (Query(f"{PREFIX}replica_lag_messages{{{ROLE}}}", "{{instance}} {{role}}"),),
        ),
        Panel(
            "Partitions held back",
            "ops",
            "Partitions left out of Fetches because the quota was spent, per second: throttling at work. Where the "
            "quota is only observed, those that it would have left out; nothing was held back.",
            (
                Query(f"rate({PREFIX}omitted_partitions_total{{{ROLE}}}[$__rate_interval])", "{{instance}} {{role}}"),
                Query(
                    f"rate({PREFIX}substituted_partitions_total{{{ROLE}}}[$__rate_interval])",
                    "{{instance}} {{role}} answered empty",
                ),
            ),
        ),
        Panel(
            "Quota ends in",
            "s",
            "Until the `until` of sections that hold now, and until the next change by the clock. Empty: neither.",
            (
                Query(f"{PREFIX}quota_until_timestamp_seconds{{{ROLE}}} - time()", "{{instance}} {{role}}"),
                Query(
                    f"{PREFIX}quota_next_change_timestamp_seconds{{{ROLE}}} - time()",
                    "{{instance}} {{role}} next change",
                ),
            ),
            alert="ReplicationThrottleQuotaExpiresSoon",
        ),
        Panel(
            "ISR shrinks",
            "short",
            "Replicas that left an ISR in ten minutes, by the brokers' own count; and replicas behind whose partitions "
            "lack replicas in sync.",
            (
                Query(f"kafka:isr_shrinks:increase10m{{{CLUSTER}}}", "cluster {{cluster}}"),
                Query(f'{PREFIX}replicas_in_need{{{ROLE}, need!="moves"}} > 0', "{{instance}} {{role}} {{need}}"),
            ),
            alert="ReplicationThrottleIsrShrinking",
        ),
    ),
)

CHOSEN_AND_FINER = Row(
    "Rates that set themselves, and rates inside the quota",
    (
        Panel(
            "Rates that set themselves",
            "binBps",
            "The rate chosen, and what a deadline needs. Needed above chosen: `max` is not enough, it will be late.",
            (
                Query(f"{PREFIX}deadline_needed_bytes_per_second{{{ROLE}}}", "{{instance}} {{role}} needed"),
                Query(
                    f"{PREFIX}limit_bytes_per_second{{{ROLE}}} and on (job, instance, role) "
                    f"({PREFIX}deadline_timestamp_seconds or {PREFIX}auto_rate_bytes_per_second)",
                    "{{instance}} {{role}} chosen",
                ),
            ),
            alert="ReplicationThrottleDeadlineLate",
        ),
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
    ),
)

TRAFFIC = Row(
    "Traffic",
    (
        Panel(
            "Relayed",
            "binBps",
            "All bytes through the sidecar, of any kind. Zero while brokers are up: they go around it.",
            (
                Query(
                    f"rate({PREFIX}relayed_bytes_total{{{ROLE}}}[$__rate_interval])",
                    "{{instance}} {{role}} {{direction}}",
                ),
            ),
            alert="ReplicationThrottleBypassed",
        ),
        Panel(
            "Connections",
            "short",
            "Open now. A follower opens num.replica.fetchers to each leader, and others for its other errands.",
            (Query(f"{PREFIX}connections{{{ROLE}}}", "{{instance}} {{role}}"),),
        ),
        Panel(
            "Undecoded",
            "short",
            "What passed without being understood, and connections that were refused, in the last quarter of an hour; "
            "and connections open now that pass as they are.",
            (
                Query(f"increase({PREFIX}undecoded_total{{{ROLE}}}[15m])", "{{instance}} {{role}}: {{reason}}"),
                Query(f"{PREFIX}opaque_connections{{{ROLE}}} > 0", "{{instance}} {{role}}: opaque connections now"),
                Query(f"increase({PREFIX}refused_connections_total{{{ONE}}}[15m])", "{{instance}} refused: {{reason}}"),
            ),
            alert="ReplicationThrottleUndecoded",
        ),
    ),
)

CLIENTS = Row(
    "Clients with quotas",
    (
        Panel(
            "Clients and the listener",
            "binBps",
            "Produce requests (producer) and Fetch responses (consumer) of each entity with a quota. Normal: at its "
            "rate or below it. Entity other: client ids beyond the first fifty under a default. Of a listener "
            "with a rate: that, and what consumers take of it; the rest is replication's.",
            (
                Query(f"{PREFIX}listener_limit_bytes_per_second{{{ONE}}} < +Inf", "{{instance}} listener's rate"),
                Query(
                    f"rate({PREFIX}listener_client_bytes_total{{{ONE}}}[$__rate_interval])",
                    "{{instance}} consumers' share",
                ),
                Query(
                    f"sum by (entity, kind) (rate({PREFIX}client_bytes_total{{{ONE}}}[$__rate_interval]))",
                    "{{entity}} {{kind}}",
                ),
                Query(
                    f"sum by (entity, kind) ({PREFIX}client_limit_bytes_per_second{{{ONE}}})",
                    "{{entity}} {{kind}} limit",
                ),
            ),
        ),
        Panel(
            "Clients throttled",
            "short",
            "Connections that are muted, or wait, of each entity. As many as it has: its quota is always used up.",
            (
                Query(
                    f"sum by (entity, kind)"
                    f" (rate({PREFIX}client_throttle_time_seconds_total{{{ONE}}}[$__rate_interval]))",
                    "{{entity}} {{kind}}",
                ),
            ),
            alert="ReplicationThrottleClientHeld",
        ),
    ),
)

HOUSEKEEPING = Row(
    "Housekeeping",
    (
        Panel(
            "Configuration",
            "short",
            "1 while quotas.toml is good, 0 while the last good one is kept; its reads, by outcome; where the "
            "quotas in force come from (none: nothing is throttled).",
            (
                Query(f"{PREFIX}config_last_reload_successful{{{ONE}}}", "{{instance}} good"),
                Query(f"{PREFIX}config_reloads_total{{{ONE}}}", "{{instance}} {{outcome}}"),
                Query(f"{PREFIX}quotas_in_force{{{ONE}}} == 1", "{{instance}} from: {{source}}"),
            ),
            alert="ReplicationThrottleReloadFailed",
        ),
        Panel(
            "Guard",
            "short",
            "1 while the guard of a broker leads its traffic around a sidecar, or while iptables refuses that; and its "
            "ways around that did not work at the last try. Empty without guards.",
            (
                Query(f"{PREFIX}guard_around{{{CLUSTER}}}", "broker {{broker}} around"),
                Query(f"{PREFIX}guard_refused{{{CLUSTER}}}", "broker {{broker}} refused"),
                Query(f'{PREFIX}guard_ways{{{CLUSTER}, state!="verified"}}', "broker {{broker}} ways {{state}}"),
            ),
            alert="ReplicationThrottleGuardAround",
        ),
        Panel(
            "Loop lag",
            "s",
            "How late the one thread that carries everything turned, at worst. Beyond 0.1 s fetches wait for it.",
            (Query(f"{PREFIX}loop_lag_seconds{{{ONE}}}", "{{instance}}"),),
            alert="ReplicationThrottleLoopLagging",
        ),
        Panel(
            "Restarts and lost log lines",
            "short",
            "Background tasks that failed and were started again, log lines that nobody will read, and lines and files "
            "that the journal lost, in 15 minutes.",
            (
                Query(f"increase({PREFIX}task_restarts_total{{{ONE}}}[15m])", "{{instance}} restarts: {{task}}"),
                Query(f"increase({PREFIX}log_dropped_total{{{ONE}}}[15m])", "{{instance}} lines: {{reason}}"),
                Query(f"increase({PREFIX}journal_dropped_total{{{ONE}}}[15m])", "{{instance}} journal lines dropped"),
                Query(
                    f"increase({PREFIX}journal_removed_files_total{{{ONE}}}[15m])", "{{instance}} journal files removed"
                ),
            ),
            alert="ReplicationThrottleTaskRestarting",
        ),
        Panel(
            "TLS",
            "short",
            "Handshakes and keys read anew in 15 minutes, and days until the first certificate of a leg ends, "
            "below 0 once it has.",
            (
                Query(f"increase({PREFIX}tls_handshakes_total{{{ONE}}}[15m])", "{{instance}} {{leg}} done"),
                Query(
                    f"increase({PREFIX}tls_handshake_failures_total{{{ONE}}}[15m])", "{{instance}} {{leg}} {{reason}}"
                ),
                Query(f"increase({PREFIX}tls_reloads_total{{{ONE}}}[15m])", "{{instance}} {{leg}} keys: {{outcome}}"),
                Query(
                    f"({PREFIX}certificate_expiry_timestamp_seconds{{{ONE}}} - time()) / 86400",
                    "{{instance}} {{leg}} {{store}}: days left",
                ),
            ),
            may_be_negative=True,
            alert="ReplicationThrottleHandshakesFail",
        ),
    ),
)

ROWS = (AT_A_GLANCE, THROTTLE, CHOSEN_AND_FINER, CLIENTS, TRAFFIC, HOUSEKEEPING)
