"""Fifty sidecars in the states that a real fleet shows at once, as their /throttle tells them."""

from __future__ import annotations

from typing import Any

MIB = 2**20
SILENT = (117, 139)
"""They do not answer."""
TOPICS = ("orders", "payments.settlements.v3", "a-topic-name-of-" + "many" * 58 + "-characters")


def page(broker: int, now: float) -> dict[str, Any]:
    """Of one of the brokers 101 to 150, at `now` (seconds since 1970)."""
    n = broker - 101
    return {
        "broker": broker,
        "version": "1.4.0" if n % 10 else "1.3.2",
        "policy": "strict",
        "enforce": broker != 105,
        "quotas": {
            "hash": "4f2a90c1d3e8",
            "last_reload_successful": broker != 112,
            "last_error": "quotas.toml: brokers.default: expected a rate" if broker == 112 else None,
            "last_success_timestamp_seconds": now - 60 - n,
            "next_change": None,
        },
        "journal": {"lines_total": 1000 * n, "dropped_total": 7 if broker == 120 else 0},
        "conditions": conditions(broker, n),
        "roles": {"leader": role(n, leads=True), "follower": role(n, leads=False)},
    }


def role(n: int, *, leads: bool) -> dict[str, Any]:
    lag = 0 if n % 3 else 1_000 * (n + 1) ** 2
    quota: float | None = None if n == 33 else 50.0 * MIB
    rate = min(lag * 1000.0, 49.5 * MIB)
    passes = 58.0 * MIB if n == 9 and leads else rate
    stalled = n == 21
    return {
        "served": leads or n != 7,
        "quota_bytes_per_second": 300.0 if n == 44 and leads else quota,
        "rate_bytes_per_second": passes,
        "lowered_seconds": 900.0,
        "passing_bytes_per_second": {"catching_up": passes, "in_sync": 3.5 * MIB, "other": (1 + n) * 10_000.0},
        "omitted_partitions_total": 17 * n,
        "connections": 0 if n == 26 else 6,
        "connections_without_fetches": 0,
        "held_requests": n % 2,
        "lag_messages": 147_000 if stalled else 2**63 - 1 if n == 48 else lag,
        "eta_seconds": 9e52 if n == 48 else None if stalled or n == 30 else lag / 900.0,
        "undecoded": {"tls": 3 + n} if n in (14, 15) and leads else {},
        "links": [link(n, peer, lag) for peer in range(1, 3)],
        "partitions": [partition(n, p, lag) for p in range(3)] if lag else [],
    }


def conditions(broker: int, n: int) -> list[dict[str, Any]]:
    found = [
        (broker == 105, "observe_only", "note", None, "observing only, nothing is throttled", 0),
        (broker == 112, "quotas_file_wrong", "warning", None,
         "quotas.toml is wrong, the last good one holds: quotas.toml: brokers.default: expected a rate", 0),
        (broker == 120, "journal_not_written", "warning", None, "{count} journal lines dropped", 7),
        (n in (14, 15), "undecoded", "critical", "leader", "{count} frames passed undecoded (tls)", 3 + n),
        (n == 9, "over_quota", "warning", "leader", "replicas behind got more than 105 % of the quota", 0),
        (n == 44, "quota_warning", "warning", "leader", "the rate is 300 B/s: was a unit forgotten?", 0),
        (n == 26, "bypassed", "critical", "leader", "no connection has come through here", 0),
        (n == 26, "bypassed", "critical", "follower", "no connection has come through here", 0),
        (n % 5 == 4, "quota_warning", "warning", "follower", "lists name what the cluster does not have: ordrs", 0),
    ]  # fmt: skip
    names = ("name", "severity", "role", "text", "count")
    begun = {"since": "2026-12-01T00:00:00Z", "do": "see docs/runbooks.md"}
    return [dict(zip(names, each, strict=True)) | begun for holds, *each in found if holds]


def link(n: int, peer: int, lag: int) -> dict[str, Any]:
    return {
        "peer": str(101 + (n + peer) % 50),
        "fetch_version": 17,
        "partitions": 40,
        "behind": 13 if lag else 0,
        "lag_messages": lag // 2,
        "rate_bytes_per_second": lag * 300.0,
        "eta_seconds": lag / 900.0,
    }


def partition(n: int, number: int, lag: int) -> dict[str, Any]:
    return {
        "topic": TOPICS[(n + number) % 3],
        "partition": number,
        "peer": str(101 + (n + 1) % 50),
        "in_sync": False,
        "lag_messages": lag // 3 - number,
        "rate_bytes_per_second": lag * 100.0,
    }
