"""What the dashboard shows: every panel with its question, its unit and its expressions. Data, no Grafana.

The panels' descriptions are what an operator reads when hovering over them, so they say what is normal. Invariant: an
expression uses metrics of docs/metrics.md, or what deploy/prometheus records; `$cluster`, `$instance` and
`$role` are the dashboard's variables.
"""

from __future__ import annotations

from .panel import CLUSTER, ONE, PREFIX, ROLE, Panel, Query, Row
from .rate_panels import FINER_RATES, RATES


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
            "quotas.toml is good",
            "bool_yes_no",
            "No: some sidecar keeps the last good file, because the present one is wrong.",
            (Query(f"min({PREFIX}config_last_reload_successful{{{ONE}}})", "good"),),
            "stat",
        ),
        Panel(
            "Undecoded, 1 h",
            "short",
            "Frames or connections that passed without being understood, so unthrottled. Anything but 0 needs a look.",
            # What was counted before the first scrape is no increase: of a counter that was not there an hour ago, all
            # counts.
            (
                Query(
                    f"sum((increase({PREFIX}undecoded_total{{{ROLE}}}[1h]) > 0)"
                    f" or ({PREFIX}undecoded_total{{{ROLE}}} unless {PREFIX}undecoded_total{{{ROLE}}} offset 1h)"
                    f" or increase({PREFIX}undecoded_total{{{ROLE}}}[1h]))",
                    "undecoded",
                ),
            ),
            "stat",
        ),
        Panel(
            "Alerts firing",
            "short",
            "Of deploy/prometheus.",
            (
                Query(
                    f'count(ALERTS{{{CLUSTER}, alertname=~"ReplicationThrottle.+", alertstate="firing"}}) or vector(0)',
                    "firing",
                ),
            ),
            "stat",
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
            "Partitions",
            "binBps",
            "Bytes per second of the ten fastest and the ten slowest throttled partitions. Empty unless "
            "partition_rates is true in [http] of proxy.toml. A partition at 0 while others move starves.",
            (
                Query(
                    f"topk(10, PartitionBytesInRate{{{ROLE}}}) or bottomk(10, PartitionBytesInRate{{{ROLE}}})",
                    "{{instance}} {{role}} {{topic}}-{{partition}}",
                ),
            ),
        ),
        Panel(
            "Replicas",
            "short",
            "Throttled replicas on connections open now.",
            (Query(f"{PREFIX}replicas{{{ROLE}}}", "{{instance}} {{role}} in sync: {{in_sync}}"),),
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
            "Fetches held",
            "s",
            "How long Fetches waited in which nothing was allowed, the slowest of a hundred. Never beyond "
            "replica.fetch.wait.max.ms (0.5 s by default).",
            (
                Query(
                    f"histogram_quantile(0.99, sum by (le, instance, role)"
                    f" (rate({PREFIX}hold_seconds_bucket{{{ROLE}}}[$__rate_interval])))",
                    "{{instance}} {{role}}",
                ),
            ),
        ),
        Panel(
            "Answered here",
            "reqps",
            "Fetches answered by the sidecar alone, per second, and those that are held now.",
            (
                Query(
                    f"rate({PREFIX}local_answers_total{{{ROLE}}}[$__rate_interval])", "{{instance}} {{role}} answered"
                ),
                Query(f"{PREFIX}held_requests{{{ROLE}}}", "{{instance}} {{role}} held now"),
            ),
        ),
        Panel(
            "Discarded",
            "binBps",
            "Record bytes that arrived over quota and were discarded, to be fetched again later: for moments after a "
            "quota was lowered. Where the quota is only observed, those that it would have discarded; they passed.",
            (Query(f"rate({PREFIX}withheld_bytes_total{{{ROLE}}}[$__rate_interval])", "{{instance}} {{role}}"),),
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
            "Replicas that left an ISR in ten minutes, by the brokers' own count.",
            (Query(f"kafka:isr_shrinks:increase10m{{{CLUSTER}}}", "cluster {{cluster}}"),),
            alert="ReplicationThrottleIsrShrinking",
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
            "Replica fetches",
            "reqps",
            "By the version of the Fetch API that brokers speak: an upgrade is seen here.",
            (
                Query(
                    f"sum by (instance, role, api_version)"
                    f" (rate({PREFIX}fetch_requests_total{{{ROLE}}}[$__rate_interval]))",
                    "{{instance}} {{role}} v{{api_version}}",
                ),
            ),
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

HOUSEKEEPING = Row(
    "Housekeeping",
    (
        Panel(
            "Configuration",
            "short",
            "1 while quotas.toml is good, 0 while the last good one is kept; when it was read, by outcome; where the "
            "quotas in force come from (none: nothing is throttled), and whether they were kept for the next start.",
            (
                Query(f"{PREFIX}config_last_reload_successful{{{ONE}}}", "{{instance}} good"),
                Query(f"{PREFIX}config_reloads_total{{{ONE}}}", "{{instance}} {{outcome}}"),
                Query(f"{PREFIX}quotas_in_force{{{ONE}}} == 1", "{{instance}} from: {{source}}"),
                Query(f"{PREFIX}quotas_kept_total{{{ONE}}}", "{{instance}} kept: {{outcome}}"),
            ),
            alert="ReplicationThrottleReloadFailed",
        ),
        Panel(
            "Which quotas.toml, which version",
            "short",
            "Sidecars by the hash of the file in effect and by version. One line each, where all should be alike.",
            (
                Query(f"count by (hash) ({PREFIX}config_info{{{ONE}}})", "quotas {{hash}}"),
                Query(f"count by (version) ({PREFIX}build_info{{{ONE}}})", "sidecar {{version}}"),
            ),
        ),
        Panel(
            "Journal",
            "ops",
            "Lines written and lost per second. After a loss reports are incomplete. Empty without a journal.",
            (
                Query(f"rate({PREFIX}journal_lines_total{{{ONE}}}[$__rate_interval])", "{{instance}} written"),
                Query(f"rate({PREFIX}journal_dropped_total{{{ONE}}}[$__rate_interval])", "{{instance}} dropped"),
                Query(
                    f"increase({PREFIX}journal_removed_files_total{{{ONE}}}[1h])", "{{instance}} files removed in 1 h"
                ),
            ),
            alert="ReplicationThrottleJournalDropping",
        ),
        Panel(
            "Sidecars",
            "short",
            "1 for each that answers.",
            (Query(f"up{{{ONE}}} and on (job, instance) last_over_time({PREFIX}build_info[1d])", "{{instance}}"),),
            alert="ReplicationThrottleSidecarDown",
        ),
    ),
)

BOUNDS = Row(
    "Doubts and bounds",
    (
        Panel(
            "Quotas in doubt",
            "short",
            "1 where a quota may not throttle what was meant: nobody connects, a list names nothing, a tiny rate.",
            (Query(f"{PREFIX}quota_doubts{{{ROLE}}}", "{{instance}} {{role}} {{reason}}"),),
            alert="ReplicationThrottleQuotaDoubtful",
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
            "Background tasks that failed and were started again, and log lines that nobody will read, in 15 minutes.",
            (
                Query(f"increase({PREFIX}task_restarts_total{{{ONE}}}[15m])", "{{instance}} restarts: {{task}}"),
                Query(f"increase({PREFIX}log_dropped_total{{{ONE}}}[15m])", "{{instance}} lines: {{reason}}"),
            ),
            alert="ReplicationThrottleTaskRestarting",
        ),
        Panel(
            "Ends of connections",
            "short",
            "Relayed connections by why they ended, and pauses in accepting and reading for want of room: 15 minutes.",
            (
                Query(f"increase({PREFIX}ended_connections_total{{{ROLE}}}[15m])", "{{instance}} {{role}} {{cause}}"),
                Query(f"increase({PREFIX}accept_pauses_total{{{ONE}}}[15m])", "{{instance}} no room: {{reason}}"),
                Query(f"increase({PREFIX}in_flight_pauses_total{{{ROLE}}}[15m])", "{{instance}} in flight: {{bound}}"),
            ),
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
        Panel(
            "Held bytes",
            "bytes",
            "Of frames that have to be whole before anything is done with them. Normally some kilobytes.",
            (Query(f"{PREFIX}held_bytes{{{ONE}}}", "{{instance}}"),),
        ),
        Panel(
            "Remembered replicas",
            "short",
            "Throttled replicas remembered now; and 1 while no connection is accepted, by reason.",
            (
                Query(f"{PREFIX}remembered_replicas{{{ROLE}}}", "{{instance}} {{role}}"),
                Query(f"{PREFIX}accept_paused{{{ONE}}}", "{{instance}} accepts nothing: {{reason}}"),
            ),
            alert="ReplicationThrottleOverloaded",
        ),
        Panel(
            "HTTP",
            "short",
            "Connections to the sidecar's own HTTP address; answers by status and refusals by reason in 15 minutes.",
            (
                Query(f"{PREFIX}http_connections{{{ONE}}}", "{{instance}} connections"),
                Query(f"increase({PREFIX}http_answers_total{{{ONE}}}[15m])", "{{instance}} {{code}}"),
                Query(f"increase({PREFIX}http_refused_total{{{ONE}}}[15m])", "{{instance}} refused: {{reason}}"),
            ),
        ),
    ),
)

ROWS = (AT_A_GLANCE, THROTTLE, RATES, FINER_RATES, TRAFFIC, BOUNDS, HOUSEKEEPING)
