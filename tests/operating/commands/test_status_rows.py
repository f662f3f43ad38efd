"""Which rows are shown, in which order, and what they are together."""

from __future__ import annotations

import pytest

from operating.commands.status_rows import Filter, Sidecar, Sort, rows, totals
from proxy.observing.throttle_page import DoubtState, Page, PassingState, QuotasState, RoleState
from proxy.throttle.survey import PartitionSurvey

MIB = 2.0**20


def sidecar(broker: int, **roles: RoleState) -> Sidecar:
    return Sidecar(f"http://{broker}", page=Page(broker, "strict", enforce=True, quotas=QuotasState("a"), roles=roles))


FLEET = (
    sidecar(1, leader=RoleState(4 * MIB, MIB, lag_messages=10, eta_seconds=5.0,
                                passing_bytes_per_second=PassingState(3.0, 2.0, 1.0)),
            follower=RoleState(None, 2 * MIB)),
    sidecar(2, leader=RoleState(2 * MIB, MIB, lag_messages=500, eta_seconds=50.0), follower=RoleState(0.0, 0.0)),
    sidecar(3, leader=RoleState(8 * MIB, 0.0, lag_messages=7, eta_seconds=None),
            follower=RoleState(None, 0.0, served=False)),
    sidecar(4, leader=RoleState(MIB, 0.0, doubts=(DoubtState("tiny_rate", "x"),),
                                partitions=(PartitionSurvey("orders", 0), PartitionSurvey("clicks", 1)))),
    Sidecar("http://5", error="no answer", broker=5),
)  # fmt: skip


def order(sort: Sort) -> list[tuple[int, str]]:
    return [(row.page.broker, row.name) for row in rows(FLEET, Filter(roles=frozenset({"leader"})), sort).roles]


@pytest.mark.parametrize(
    ("sort", "brokers"),
    [
        (Sort.WORST, [4, 3, 2, 1]),  # amiss, gets nowhere, far behind
        (Sort.BROKER, [1, 2, 3, 4]),
        (Sort.LAG, [2, 1, 3, 4]),
        (Sort.ETA, [3, 2, 1, 4]),
        (Sort.RATE, [1, 2, 3, 4]),
        (Sort.QUOTA, [4, 2, 1, 3]),
        (Sort.UNTHROTTLED, [1, 2, 3, 4]),
    ],
)
def test_the_order(sort: Sort, brokers: list[int]) -> None:
    assert order(sort) == [(broker, "leader") for broker in brokers]


def test_a_role_that_is_not_served_is_no_row() -> None:
    assert (3, "follower") not in [(row.page.broker, row.name) for row in rows(FLEET).roles]


@pytest.mark.parametrize(
    ("which", "pages"),
    [
        (Filter(), [(1, ["leader", "follower"]), (2, ["leader", "follower"]), (3, ["leader"]), (4, ["leader"])]),
        (Filter(roles=frozenset({"follower"})), [(1, ["follower"]), (2, ["follower"])]),
    ],
)
def test_a_page_has_the_roles_that_are_shown(which: Filter, pages: list[tuple[int, list[str]]]) -> None:
    """Of others nothing is to be said: neither until when they hold nor what changes."""
    assert sorted((page.broker, list(page.roles)) for page in rows(FLEET, which).pages) == pages


def test_a_topic_chooses_its_partitions_and_the_roles_that_have_some() -> None:
    found = rows(FLEET, Filter(topics=("ord*",)))
    assert [(row.page.broker, row.name) for row in found.roles] == [(4, "leader")]
    assert [each.topic for _, _, each in found.partitions] == ["orders"]
    assert [each.broker for each in found.silent] == [5]


def test_who_does_not_answer_is_there_unless_another_broker_was_asked_for() -> None:
    assert rows(FLEET, Filter(brokers=frozenset({1}))).silent == ()
    assert [each.broker for each in rows(FLEET, Filter(brokers=frozenset({1, 5}))).silent] == [5]
    nobodys = Sidecar("http://6", error="no answer")
    assert rows((nobodys,), Filter(brokers=frozenset({1}))).silent == (nobodys,)


def test_totals_are_of_those_that_are_shown() -> None:
    leader, follower = totals(rows(FLEET).roles)
    assert (leader.name, leader.sidecars, follower.name, follower.sidecars) == ("leader", 4, "follower", 2)
    assert (leader.quota, leader.rate, leader.lag_messages) == (15 * MIB, 2 * MIB, 517)
    assert (leader.in_sync, leader.unthrottled) == (2.0, 1.0)
    assert leader.eta is None  # one gets nowhere
    assert (follower.quota, follower.rate, follower.limited_rate, follower.eta) == (None, 2 * MIB, 0.0, 0.0)
    (only,) = totals(rows(FLEET, Filter(frozenset({"leader"}), frozenset({1, 2}))).roles)
    assert (only.eta, only.quota) == (50.0, 6 * MIB)


@pytest.mark.parametrize(
    ("quotas", "total", "limited_rate"),
    [((0.0, 0.0), 0.0, 0.0), ((0.0, 4.0), 4.0, 1.0), ((None, 4.0), None, 1.0), ((None, None), None, 0.0)],
)
def test_a_quota_of_nothing_is_no_missing_one(
    quotas: tuple[float | None, ...], total: float | None, limited_rate: float
) -> None:
    """What passes at a quota of 0 is of replicas in sync, and no part of the others' quota. With one that is unlimited,
    all together are."""
    fleet = [sidecar(n, leader=RoleState(quota, 1.0)) for n, quota in enumerate(quotas)]
    (found,) = totals(rows(fleet).roles)
    assert (found.quota, found.limited_rate) == (total, limited_rate)
