"""Which rows are shown, in which order, and what they are together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from operating.asking import ask
from operating.fleet.members import Member
from operating.status.rows import Sidecar, decode, rows, totals
from proxy.diagnostics.conditions import Condition, Kind
from proxy.diagnostics.replica_stats import PartitionStats
from proxy.errors import UnreachableError
from proxy.observing.throttle_page import Page, PassingState, QuotasState, RoleState

if TYPE_CHECKING:
    from tests.proxy.fake_sidecar import FakeSidecar


MIB = 2.0**20


def sidecar(broker: int, **roles: RoleState) -> Sidecar:
    wrong = [(2, Kind.CATCH_UP_STOPPED, "follower"), (4, Kind.QUOTA_WARNING, "leader")]
    conditions = tuple(
        Condition(kind.label, kind.severity, datetime(2026, 12, 1, tzinfo=UTC), "x", "y", role)
        for each, kind, role in wrong
        if each == broker
    )
    page = Page(broker, "strict", enforce=True, quotas=QuotasState("a"), roles=roles, conditions=conditions)
    return Sidecar(Member(f"http://{broker}"), page=page)


FLEET = (
    sidecar(1, leader=RoleState(4 * MIB, MIB, lag_messages=10, eta_seconds=5.0,
                                passing_bytes_per_second=PassingState(3.0, 2.0, 1.0)),
            follower=RoleState(None, 2 * MIB)),
    sidecar(2, leader=RoleState(2 * MIB, MIB, lag_messages=500, eta_seconds=50.0), follower=RoleState(0.0, 0.0)),
    sidecar(3, leader=RoleState(8 * MIB, 0.0, lag_messages=7, eta_seconds=None),
            follower=RoleState(None, 0.0, served=False)),
    sidecar(4, leader=RoleState(MIB, 0.0,
                                partitions=(PartitionStats("orders", 0), PartitionStats("clicks", 1)))),
    Sidecar(Member("http://5", 5), error="no answer"),
)  # fmt: skip


def test_the_worst_come_first() -> None:
    """Amiss, gets nowhere, far behind; of each broker the leader. A role that is not served is no row."""
    found = [(row.page.broker, row.name) for row in rows(FLEET).roles]
    assert found == [(2, "follower"), (4, "leader"), (3, "leader"), (2, "leader"), (1, "leader"), (1, "follower")]


def test_who_does_not_answer_is_a_row() -> None:
    assert [each.member.broker for each in rows(FLEET).silent] == [5]


def test_totals_are_of_those_that_are_shown() -> None:
    leader, follower = totals(rows(FLEET).roles)
    assert (leader.name, leader.sidecars, follower.name, follower.sidecars) == ("leader", 4, "follower", 2)
    assert (leader.quota, leader.rate, leader.lag_messages) == (15 * MIB, 2 * MIB, 517)
    assert (leader.in_sync, leader.unthrottled) == (2.0, 1.0)
    assert leader.eta is None  # one gets nowhere
    assert (follower.quota, follower.rate, follower.limited_rate, follower.eta) == (None, 2 * MIB, 0.0, 0.0)
    first, _ = totals(rows(FLEET[:2]).roles)
    assert (first.eta, first.quota) == (50.0, 6 * MIB)


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


def test_a_page_is_read(fake: FakeSidecar) -> None:
    page = decode(f"{fake.url}/", ask(f"{fake.url}/", "/throttle"))
    assert fake.paths == ["/throttle"]
    assert (page.broker, page.quotas.hash, page.roles["leader"].lag_messages) == (101, "abc", 12345)


@pytest.mark.parametrize(
    "content", [b"<html>", b"{}", b'{"policy": "\xff"}', b"[]", b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"]
)
def test_another_server_is_not_taken_for_a_sidecar(fake: FakeSidecar, content: bytes) -> None:
    fake.content = content
    with pytest.raises(UnreachableError, match=f"{fake.url}: the answer is not a sidecar's"):
        decode(fake.url, ask(fake.url, "/throttle"))


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://", "http://[::1", "localhost:9404", "file:///etc/passwd"]
)
def test_no_answer_names_the_url(url: str) -> None:
    with pytest.raises(UnreachableError) as caught:
        decode(url, ask(url, "/throttle"))
    assert str(caught.value).startswith(url)
