from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from admission.budget import Kip73Budget
from proxy.clients.connection import ClientConnection
from proxy.clients.throttle import ClientThrottle
from proxy.diagnostics.conditions import Condition
from proxy.diagnostics.replica_stats import ReplicaStats
from proxy.observing.exposition import Exposition
from proxy.observing.metric_row import Sources
from proxy.process.supervision import Task
from proxy.quota_files.reload import ReloadResult, ReloadStatistics
from proxy.quotas import Change, Deadline, Quotas, RateSource, RoleQuota
from proxy.quotas.client_rates import ClientRates
from proxy.quotas.finer_rates import Entity
from proxy.quotas.keys import ClientTraffic
from proxy.rates.choice import Choice, HeldBy, Observed
from proxy.rates.role_rate import RoleRate
from proxy.rates.signals import Signal
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics, Statistics
from tests.proxy.clients.rates import traffic_rates
from tests.proxy.conversation import MIB, settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Metric as Family

    from proxy.diagnostics.role_rates import PartitionRate

RATES = {Role.LEADER: 11.5, Role.FOLLOWER: 22.5}
SOON = datetime(2026, 11, 1, tzinfo=UTC)
QUOTAS = Quotas(
    listener_bytes_per_second=5000.0, leader=RoleQuota(1024.0), enforce=False, hash="abc", until={Role.FOLLOWER: SOON}
)
LATE = Choice(1024.0, HeldBy.MOST, "too late", SOON, 5000.0, late=True)
AUTO = Choice(7.0, Signal.CATCH_UP_READS, "slow", signal=Signal.CATCH_UP_READS, auto=True)
SURVEYS = {
    Role.LEADER: ReplicaStats(in_sync=3, behind=1, lag_messages=100, in_need={"under-min-isr": 1}),
    Role.FOLLOWER: ReplicaStats(in_sync=0, behind=2, lag_messages=200),
}


def sources(*, partition_rates: list[PartitionRate] | None = None) -> Sources:
    leader = RoleStatistics(
        throttled_bytes_in_sync=1,
        throttled_bytes_catching_up=2,
        omitted_partitions=3,
        substituted_partitions=4,
        withheld_bytes=5,
        local_answers=6,
        relayed_request_bytes=7,
        relayed_response_bytes=8,
        cross_rack_request_bytes=15,
        cross_rack_response_bytes=16,
        connections=9,
        held_requests=10,
        in_flight_pauses=Counter({"fetches": 14}),
        fetch_requests=Counter({3: 12, 11: 13}),
        undecoded=Counter({"tls": 1}),
    )
    for seconds in (0.004, 0.05, 0.3, 2.0):
        leader.hold_seconds.observe(seconds)
    follower = RoleStatistics(
        opaque_connections=17, undecoded=Counter({"tls": 2}), refused=Counter({"own_connection": 2})
    )
    return Sources(
        statistics=Statistics(leader=leader, follower=follower),
        reloads=ReloadStatistics(Counter({ReloadResult.FAILED: 2}), False, last_success_timestamp_seconds=1234.0),
        overrides=lambda: (),
        quotas=lambda: QUOTAS,
        limit_bytes_per_second=lambda role: QUOTAS.of(role).bytes_per_second,
        bounds=lambda role: [BOUND] if role is Role.LEADER else [],
        chosen=lambda role: LATE if role is Role.LEADER else AUTO,
        upcoming=lambda: Change(SOON, QUOTAS, replace(QUOTAS, leader=RoleQuota(2.0))),
        conditions=lambda: [Condition("bypassed", "critical", SOON, "x", "y")] * 2,
        rate_bytes_per_second=RATES.__getitem__,
        replica_stats=SURVEYS.__getitem__,
        clients=client_of_1000_bytes_per_second(),
        version=lambda: "1.2.3",
        task_restarts=Counter({Task.JOURNAL: 3}),
        partition_rates=None
        if partition_rates is None
        else lambda role: partition_rates if role is Role.FOLLOWER else [],
    )


def client_of_1000_bytes_per_second() -> ClientThrottle:
    """Its producer has sent a second's worth and the burst."""
    quotas = Quotas(clients=ClientRates(traffic_rates({"clients.app": 1000.0})))
    clients = ClientThrottle(settings(), quotas, 0.0, RoleStatistics())
    connection = ClientConnection(clients)
    entity = connection.entity("app", ClientTraffic.PRODUCER, 0.0)
    assert entity is not None
    connection.charge(entity, 1250, 0.0)
    connection.count_answer(entity, 1250)
    clients.count_mutes(9.0)
    clients.uplink.count_client(connection, 3000)
    clients.free_bytes["app"] = 30
    return clients


def test_a_name_from_the_wire_is_escaped_in_labels() -> None:
    name = "a\nb\x1b[2J\u202ec\0"
    clients = client_of_1000_bytes_per_second()
    clients.free_bytes[name] = 7
    text = exposed(replace(sources(), clients=clients)).decode()
    assert text.replace("\n", "").isprintable()
    assert r'client_free_bytes_total{entity="a\\x0ab\\x1b[2J\\u202ec\\x00"} 7.0' in text


BOUND = Kip73Budget(bytes_per_second=9.0, entity=Entity("peer", "102"))
BOUND.passed_bytes = 77


def exposed(of: Sources, process: Iterable[Family] = ()) -> bytes:
    """The exposition, worked out without a pause."""
    steps = Exposition(of).encode(process)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def scrape(of: Sources) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parse_text(exposed(of).decode())
        for sample in family.samples
    }


PREFIX = "replication_throttle_"


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("LeaderReplicationThrottledRate", {}, 11.5),
        ("FollowerReplicationThrottledRate", {}, 22.5),
        ("SumReplicaLag", {}, 200),
        (PREFIX + "throttled_bytes_total", {"role": "leader", "in_sync": "true"}, 1),
        (PREFIX + "throttled_bytes_total", {"role": "leader", "in_sync": "false"}, 2),
        (PREFIX + "limit_bytes_per_second", {"role": "leader"}, 1024),
        (PREFIX + "limit_bytes_per_second", {"role": "follower"}, math.inf),
        (PREFIX + "bound_limit_bytes_per_second", {"role": "leader", "kind": "peer", "name": "102"}, 9.0),
        (PREFIX + "bound_throttled_bytes_total", {"role": "leader", "kind": "peer", "name": "102"}, 77),
        (PREFIX + "replicas_in_need", {"role": "leader", "need": "under-min-isr"}, 1),
        (PREFIX + "client_bytes_total", {"entity": "app", "kind": "producer"}, 1250),
        (PREFIX + "listener_limit_bytes_per_second", {}, 5000.0),
        (PREFIX + "listener_client_bytes_total", {}, 3000),
        (PREFIX + "client_free_bytes_total", {"entity": "app"}, 30),
        (PREFIX + "client_throttle_time_seconds_total", {"entity": "app", "kind": "producer"}, 1.0),
        (PREFIX + "replicas_in_need", {"role": "follower", "need": "under-replicated"}, 0),
        (PREFIX + "deadline_timestamp_seconds", {"role": "leader"}, SOON.timestamp()),
        (PREFIX + "deadline_needed_bytes_per_second", {"role": "leader"}, 5000),
        (PREFIX + "deadline_late", {"role": "leader"}, 1),
        (PREFIX + "deadline_late", {"role": "follower"}, 0),
        (PREFIX + "auto_rate_bytes_per_second", {"role": "follower"}, 7.0),
        (PREFIX + "auto_limited_by", {"role": "follower", "signal": "catch_up_reads"}, 1),
        (PREFIX + "auto_limited_by", {"role": "follower", "signal": "network"}, 0),
        (PREFIX + "enforcing", {}, 0),
        (PREFIX + "conditions", {"name": "bypassed", "severity": "critical"}, 2),
        (PREFIX + "conditions", {"name": "observe_only", "severity": "note"}, 0),
        (PREFIX + "quota_until_timestamp_seconds", {"role": "follower"}, SOON.timestamp()),
        (PREFIX + "quota_next_change_timestamp_seconds", {"role": "leader"}, SOON.timestamp()),
        (PREFIX + "omitted_partitions_total", {"role": "leader"}, 3),
        (PREFIX + "substituted_partitions_total", {"role": "leader"}, 4),
        (PREFIX + "withheld_bytes_total", {"role": "leader"}, 5),
        (PREFIX + "local_answers_total", {"role": "leader"}, 6),
        (PREFIX + "hold_seconds_bucket", {"role": "leader", "le": "0.005"}, 1),
        (PREFIX + "hold_seconds_bucket", {"role": "leader", "le": "0.05"}, 2),
        (PREFIX + "hold_seconds_bucket", {"role": "leader", "le": "1.0"}, 3),
        (PREFIX + "hold_seconds_bucket", {"role": "leader", "le": "+Inf"}, 4),
        (PREFIX + "hold_seconds_count", {"role": "leader"}, 4),
        (PREFIX + "hold_seconds_sum", {"role": "leader"}, 2.354),
        (PREFIX + "held_requests", {"role": "leader"}, 10),
        (PREFIX + "in_flight_pauses_total", {"role": "leader", "bound": "fetches"}, 14),
        (PREFIX + "in_flight_pauses_total", {"role": "follower", "bound": "requests"}, 0),
        (PREFIX + "replica_lag_messages", {"role": "leader"}, 100),
        (PREFIX + "fetch_requests_total", {"role": "leader", "api_version": "11"}, 13),
        (PREFIX + "replicas", {"role": "leader", "in_sync": "true"}, 3),
        (PREFIX + "replicas", {"role": "leader", "in_sync": "false"}, 1),
        (PREFIX + "replicas", {"role": "leader", "in_sync": "unknown"}, 0),
        (PREFIX + "replicas", {"role": "follower", "in_sync": "false"}, 2),
        (PREFIX + "undecoded_total", {"role": "leader", "reason": "tls"}, 1),
        (PREFIX + "undecoded_total", {"role": "follower", "reason": "tls"}, 2),
        (PREFIX + "undecoded_total", {"role": "follower", "reason": "malformed_request"}, 0),
        (PREFIX + "opaque_connections", {"role": "leader"}, 0),
        (PREFIX + "opaque_connections", {"role": "follower"}, 17),
        (PREFIX + "refused_connections_total", {"reason": "own_connection"}, 2),
        (PREFIX + "refused_connections_total", {"reason": "not_redirected"}, 0),
        (PREFIX + "undecoded_total", {"role": "leader", "reason": "unknown_topic_id"}, 0),
        (PREFIX + "relayed_bytes_total", {"role": "leader", "direction": "request"}, 7),
        (PREFIX + "relayed_bytes_total", {"role": "leader", "direction": "response"}, 8),
        (PREFIX + "cross_rack_bytes_total", {"role": "leader", "direction": "request"}, 15),
        (PREFIX + "cross_rack_bytes_total", {"role": "leader", "direction": "response"}, 16),
        (PREFIX + "connections", {"role": "leader"}, 9),
        (PREFIX + "connections", {"role": "follower"}, 0),
        (PREFIX + "config_reloads_total", {"outcome": "failed"}, 2),
        (PREFIX + "config_reloads_total", {"outcome": "changed"}, 0),
        (PREFIX + "config_last_reload_successful", {}, 0),
        (PREFIX + "config_last_reload_success_timestamp_seconds", {}, 1234),
        (PREFIX + "config_info", {"hash": "abc"}, 1),
        (PREFIX + "task_restarts_total", {"task": "journal"}, 3),
        (PREFIX + "task_restarts_total", {"task": "http"}, 0),
        (PREFIX + "build_info", {"version": "1.2.3"}, 1),
    ],
)
def test_each_value_comes_from_its_source(name: str, labels: dict[str, str], value: float) -> None:
    assert scrape(sources())[name, tuple(sorted(labels.items()))] == pytest.approx(value)


def test_what_does_not_end_has_no_time() -> None:
    names = scrape(sources()).keys()
    assert (PREFIX + "quota_until_timestamp_seconds", (("role", "leader"),)) not in names
    assert (PREFIX + "quota_next_change_timestamp_seconds", (("role", "follower"),)) not in names


def test_quotas_that_are_none_were_never_read() -> None:
    """A sample of 0 was an age of fifty years."""
    of = replace(sources(), reloads=ReloadStatistics(last_reload_successful=False))
    assert (PREFIX + "config_last_reload_success_timestamp_seconds", ()) not in scrape(of)


def test_a_change_of_the_mode_is_one_of_both_roles() -> None:
    of = replace(sources(), upcoming=lambda: Change(SOON, QUOTAS, replace(QUOTAS, enforce=True)))
    roles = {dict(labels)["role"] for name, labels in scrape(of) if "next_change" in name}
    assert roles == {"leader", "follower"}


WITHIN_AN_HOUR = RateSource(800 * MIB, MIB, Deadline(within=timedelta(hours=1)), auto=True)


@pytest.mark.parametrize(
    ("source", "rate", "held_by", "auto_rates"),
    [
        (WITHIN_AN_HOUR, 360e9 / 3480, HeldBy.DEADLINE, []),
        (replace(WITHIN_AN_HOUR, deadline=None), MIB, HeldBy.NOTHING, [MIB]),
    ],
    ids=["what the deadline needs", "min"],
)
def test_without_signals_a_rate_is_at_min_or_at_what_a_deadline_needs(
    source: RateSource, rate: float, held_by: HeldBy, auto_rates: list[float]
) -> None:
    """A rate that the deadline needs is not one that was found to hurt nobody."""
    observed = Observed(behind=1, lag_messages=1000, lag_bytes=360e9)
    found = RoleRate().choose(source, observed, MIB, since=SOON, wall=SOON, now=0.0)
    assert (found.bytes_per_second, found.held_by) == (pytest.approx(rate), held_by)
    shown = scrape(replace(sources(), chosen=lambda role: found if role is Role.LEADER else None))
    assert [value for (name, _), value in shown.items() if name.endswith("auto_rate_bytes_per_second")] == auto_rates
