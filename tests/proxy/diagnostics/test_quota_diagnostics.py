"""When there is a reason to warn of a quota, and when there is none."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from proxy.diagnostics.quota_diagnostics import ALONE_SECONDS, QuotaDiagnostics, Reason, unknown_replicas
from proxy.quotas import EVERY_PARTITION, NO_PARTITION, Partitions, RoleQuota, effective, parse_quotas
from proxy.roles import Role
from proxy.topology.racks import MAX_NAMED, RackWarnings

MIB = 2**20
QUOTA = RoleQuota.of_every_topic(MIB)
RATE = "leader.replication.throttled.rate"


def reasons(diagnostics: QuotaDiagnostics) -> list[Reason]:
    return [warning.reason for warning in diagnostics.found]


@pytest.mark.parametrize("role", Role)
def test_a_quota_and_nobody_there_for_a_minute(role: Role) -> None:
    diagnostics = QuotaDiagnostics(role)
    diagnostics.look(QUOTA, 0, [], 5.0, linked={103, 102})
    diagnostics.look(QUOTA, 0, [], 4.9 + ALONE_SECONDS, linked={103, 102})
    assert reasons(diagnostics) == []
    (warning,) = diagnostics.look(QUOTA, 0, [], 5.0 + ALONE_SECONDS, linked={103, 102})
    assert (warning.reason, warning.size) == (Reason.NO_CONNECTION, 1)
    assert warning.text.startswith(
        "a quota of 1.00 MiB/s (1048576 B/s) is set, but no connection has come through the sidecar for a minute, "
        "while brokers 102, 103 "
    )
    assert ("ingress.listen" in warning.text) is (role is Role.LEADER)
    diagnostics.look(QUOTA, 1, [], 6.0 + ALONE_SECONDS, linked={103, 102})
    assert reasons(diagnostics) == []


def test_nobody_who_should_be_there_is_no_warning_and_not_to_know_is_no_alert() -> None:
    """A broker that leads everything, or nothing, or has no partition yet: "traffic passes unthrottled" paged."""
    diagnostics = QuotaDiagnostics(Role.LEADER)
    diagnostics.look(QUOTA, 0, [], 0.0)
    assert diagnostics.look(QUOTA, 0, [], ALONE_SECONDS, linked=()) == ()
    assert diagnostics.is_alone(ALONE_SECONDS)
    (warning,) = diagnostics.look(QUOTA, 0, [], ALONE_SECONDS, linked=None)
    assert (warning.reason, warning.size) == (Reason.NO_CONNECTION, 0)
    assert warning.text.endswith(
        "No broker tells whether this broker replicates at all: does it go around the sidecar?"
    )


def test_the_minute_begins_anew_with_each_connection_and_each_quota() -> None:
    diagnostics = QuotaDiagnostics(Role.LEADER)
    diagnostics.look(QUOTA, 0, [], 0.0)
    diagnostics.look(QUOTA, 1, [], 50.0)
    diagnostics.look(QUOTA, 0, [], 51.0)
    diagnostics.look(RoleQuota(), 0, [], 100.0)
    diagnostics.look(QUOTA, 0, [], 101.0)
    diagnostics.look(QUOTA, 0, [], 100.9 + ALONE_SECONDS)
    assert reasons(diagnostics) == []
    diagnostics.look(QUOTA, 0, [], 101.0 + ALONE_SECONDS, linked={102})
    assert reasons(diagnostics) == [Reason.NO_CONNECTION]


@pytest.mark.parametrize("quota", [RoleQuota(), RoleQuota(MIB), RoleQuota.of_every_topic(math.inf)],
                         ids=["nothing", "no list", "no rate"])  # fmt: skip
def test_without_a_quota_in_force_nobody_needs_to_be_there(quota: RoleQuota) -> None:
    diagnostics = QuotaDiagnostics(Role.FOLLOWER)
    for now in (0.0, 1000.0):
        assert diagnostics.look(quota, 0, [], now, linked=None) == ()


def test_a_rack_that_is_not_known_is_warned_of() -> None:
    diagnostics = QuotaDiagnostics(Role.LEADER)
    (warning,) = diagnostics.look(QUOTA, 1, [], 0.0, racks=RackWarnings(("102", "103"), ("c",)))
    assert (warning.reason, warning.size) == (Reason.UNKNOWN_RACKS, 3)
    assert diagnostics.look(QUOTA, 1, [], 1.0) == ()


@pytest.mark.parametrize(("rate", "warned"), [(0, False), (1, True), (65_535, True), (65_536, False)])
def test_a_rate_whose_unit_was_forgotten(rate: int, *, warned: bool) -> None:
    diagnostics = QuotaDiagnostics(Role.LEADER)
    diagnostics.look(RoleQuota.of_every_topic(rate), 1, [], 0.0)
    assert reasons(diagnostics) == ([Reason.TINY_RATE] if warned else [])


def quota_of(*sections: str, broker: str = '"1GiB/s"') -> RoleQuota:
    """Broker 101's as a leader, with every replica listed."""
    text = f'[brokers.default]\n{RATE} = {broker}\nleader.replication.throttled.replicas = "*"\n'
    content = "\n".join((text, *sections)).encode()
    return effective(parse_quotas(content, source="x"), 101, datetime(2026, 11, 1, tzinfo=UTC)).leader


@pytest.mark.parametrize("broker", ['"1GiB/s"', '"unlimited"'])
def test_rates_inside_are_warned_of_as_the_brokers_is_and_a_stop_is_called_one(broker: str) -> None:
    quota = quota_of(f"[peers.102]\n{RATE} = 50", f"[peers.103]\n{RATE} = 0", broker=broker)
    tiny, stop = QuotaDiagnostics(Role.LEADER).look(quota, 1, [], 0.0)
    assert (tiny.reason, tiny.size) == (Reason.TINY_RATE, 1)
    assert tiny.text.startswith("rates inside the quota are less than the 64 KiB of one portion")
    assert tiny.text.endswith("Was a unit forgotten? peer 102 has 50 B/s")
    assert stop == (Reason.STOPPED, 1, "a rate of 0 stops catch-up for peer 103")


@pytest.mark.parametrize(
    ("inside", "broker", "size", "ends"),
    [
        ((f"[peers.102]\n{RATE} = 50",), "60", 2, "peer 102 has 50 B/s"),
        (tuple(f"[peers.{n}]\n{RATE} = 9" for n in range(MAX_NAMED + 7)), '"1GiB/s"', 12, "has 9 B/s and 7 more"),
    ],
    ids=["inside a tiny one", "many"],
)
def test_how_many_rates_are_warned_of(inside: tuple[str, ...], broker: str, size: int, ends: str) -> None:
    (warning,) = QuotaDiagnostics(Role.LEADER).look(quota_of(*inside, broker=broker), 1, [], 0.0)
    assert warning.size == size
    assert warning.text.endswith(ends)


def test_rates_inside_that_bound_nothing_are_not_warned_of() -> None:
    """No list selects anything; or the rate is as large as what is asked for at a time."""
    tiny = quota_of(f"[peers.102]\n{RATE} = 50")
    assert QuotaDiagnostics(Role.LEADER).look(replace(tiny, otherwise=NO_PARTITION), 1, [], 0.0) == ()
    assert QuotaDiagnostics(Role.LEADER).look(quota_of(f"[peers.102]\n{RATE} = 65536"), 1, [], 0.0) == ()


def test_lists_are_compared_with_what_the_cluster_has() -> None:
    quota = RoleQuota(
        MIB,
        topics={
            "ordrs": EVERY_PARTITION,
            "orders": Partitions(frozenset({0, 11, 12, 17})),
            "clicks": EVERY_PARTITION,
            "exempt": NO_PARTITION,
            "unasked": Partitions(frozenset({5})),
        },
        globs=(("x-*", EVERY_PARTITION),),
    )
    assert quota.named == ("clicks", "orders", "ordrs", "unasked")
    has = {"ordrs": set[int](), "orders": set(range(12)), "clicks": {0}, "exempt": set[int](), "other": set[int]()}
    found = unknown_replicas(quota, has)
    assert found == ["orders partition 12, 17 (it has 0 to 11)", "ordrs (no such topic)"]
    (warning,) = QuotaDiagnostics(Role.LEADER).look(quota, 1, found, 0.0)
    assert (warning.reason, warning.size) == (Reason.UNKNOWN_REPLICAS, 2)
    assert "orders partition 12, 17 (it has 0 to 11); ordrs (no such topic)" in warning.text


def test_a_long_list_is_cut_and_says_so() -> None:
    many = Partitions(frozenset(range(100)))
    assert unknown_replicas(RoleQuota(MIB, topics={"t": many}), {"t": {0}}) == [
        "t partition 1, 2, 3, 4, 5, … (it has 0 to 0)"
    ]
    (warning,) = QuotaDiagnostics(Role.LEADER).look(QUOTA, 1, [f"t{n}" for n in range(MAX_NAMED + 7)], 0.0)
    assert "t4; and 7 more." in warning.text
