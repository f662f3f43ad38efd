"""What is looked at once a second, and what is logged of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from protocol.metadata import Links
from proxy.cluster.polling import follow
from proxy.cluster.questions import LINKS_SECONDS
from proxy.diagnostics.quota_diagnostics import ALONE_SECONDS, MISSING_SECONDS, Reason
from proxy.diagnostics.replica_stats import ReplicaStats
from proxy.diagnostics.role_rates import RoleRates
from proxy.http.loop_share import LoopShare
from proxy.observing.quota_checks import (
    CONNECT_SECONDS,
    LOOK_SECONDS,
    MAX_PAUSE_SECONDS,
    MIN_PAUSE_SECONDS,
    QuotaChecks,
    ReplicaStatsTask,
    pause_seconds,
)
from proxy.quota_files.reload import QuotaWatch
from proxy.quotas import Quotas, RoleQuota
from proxy.roles import Role
from proxy.topology.racks import Racks
from tests.proxy.conversation import MIB, Conversation, throttle

from ..metadata_broker import MetadataBroker
from ..recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trio.testing import MockClock

    from proxy.cluster.broker_client import Broker
    from proxy.throttle.role_throttle import OpenLink, RoleThrottle


NAMED = """[brokers.default]
leader.replication.throttled.rate = "1MiB/s"
[topics.ordrs]
leader.replication.throttled.replicas = "*"
follower.replication.throttled.replicas = "*"
"""


def test_a_role_without_connections_is_warned_of_once_somebody_should_be_there() -> None:
    leader = throttle(MIB)
    quota_checks = QuotaChecks({Role.LEADER: leader})
    for second in range(int(ALONE_SECONDS) + 5):
        quota_checks.look(float(second))
    assert quota_checks.quota_warnings(Role.LEADER) == ()  # nobody was asked yet whether somebody should be there
    quota_checks.learn_links(Links(followers=frozenset({102})))
    quota_checks.look(ALONE_SECONDS + 4)
    (warning,) = quota_checks.quota_warnings(Role.LEADER)
    assert warning.reason is Reason.NO_CONNECTION
    leader.statistics.connections = 1
    quota_checks.look(ALONE_SECONDS + 5)
    assert quota_checks.quota_warnings(Role.LEADER) == ()


@pytest.mark.parametrize(
    ("links", "warned"),
    [
        (Links(), set()),
        (Links(leaders=frozenset({102})), {Role.FOLLOWER}),
        (Links(followers=frozenset({102})), {Role.LEADER}),
        (None, {*Role}),
    ],
)
def test_only_where_brokers_replicate_a_role_without_connections_is_warned_of(
    links: Links | None, warned: set[Role]
) -> None:
    quota_checks = QuotaChecks({role: throttle(MIB, role=role) for role in Role})
    quota_checks.look(0.0)
    quota_checks.look(ALONE_SECONDS)
    quota_checks.learn_links(links)
    quota_checks.look(ALONE_SECONDS)
    assert {role for role in Role if quota_checks.quota_warnings(role)} == warned


def seen(shared: RoleThrottle, peer: str) -> OpenLink:
    """A connection on which a replica has fetched."""
    link = Conversation(shared).link
    link.peer, link.replicas.fetch_version = peer, 12
    shared.statistics.connections += 1
    return link


@pytest.mark.parametrize("role", Role)
def test_each_broker_that_goes_around_is_named_and_no_other(role: Role) -> None:
    """One leader of several went around the sidecar with 21.5 MB in 0.4 s, and nothing said so."""
    shared = throttle(MIB, role=role)
    quota_checks, brokers = QuotaChecks({role: shared}), frozenset({102, 103, 104})
    seen(shared, "102")
    quota_checks.learn_links(Links(brokers, brokers))
    for second in range(int(MISSING_SECONDS)):
        quota_checks.look(float(second))
    assert quota_checks.quota_warnings(role) == ()
    quota_checks.look(MISSING_SECONDS)
    (warning,) = quota_checks.quota_warnings(role)
    assert (warning.reason, warning.size, warning.text.startswith("brokers 103, 104 ")) == (Reason.BYPASSED, 2, True)
    link = seen(shared, "103")
    quota_checks.look(MISSING_SECONDS + 1)
    (warning,) = quota_checks.quota_warnings(role)
    assert warning.text.startswith("brokers 104 ")
    link.close()  # it may come back
    quota_checks.learn_links(Links(frozenset({102, 103}), frozenset({102, 103})))  # 104 has gone
    quota_checks.look(MISSING_SECONDS + 2)
    assert quota_checks.quota_warnings(role) == ()


def test_a_leader_without_an_entry_is_known_by_its_address() -> None:
    shared = throttle(MIB, role=Role.FOLLOWER)
    quota_checks, brokers = QuotaChecks({Role.FOLLOWER: shared}), frozenset({102, 103})
    seen(shared, "10.0.0.102:9092")
    for addresses, named in (({}, []), ({"10.0.0.102:9092": 102}, ["brokers 103 "])):
        quota_checks.learn_links(Links(brokers, addresses=addresses))
        for second in (0.0, MISSING_SECONDS):
            quota_checks.look(second)
        assert [each.text[:12] for each in quota_checks.quota_warnings(Role.FOLLOWER)] == named


def test_where_traffic_is_not_understood_nobody_is_said_to_go_around() -> None:
    shared = throttle(MIB)
    shared.statistics.connections = shared.statistics.opaque_connections = 1
    quota_checks = QuotaChecks({Role.LEADER: shared})
    quota_checks.learn_links(Links(followers=frozenset({102})))
    for second in (0.0, MISSING_SECONDS):
        quota_checks.look(second)
    assert quota_checks.quota_warnings(Role.LEADER) == ()


async def test_a_broker_is_asked_while_a_quota_holds(autojump_clock: trio.testing.MockClock) -> None:
    leader = throttle(math.inf)
    quota_checks, asked = QuotaChecks({Role.LEADER: leader}), list[float]()

    def brokers() -> Iterator[Broker]:
        asked.append(trio.current_time())
        yield from ()

    class Brokers:
        __iter__ = staticmethod(brokers)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(quota_checks.run)
        nursery.start_soon(follow, quota_checks.links_question(101), Brokers(), RecordedLog())
        await trio.sleep(ALONE_SECONDS)
        assert asked == []
        leader.apply(Quotas(leader=RoleQuota.of_every_topic(MIB)), trio.current_time())
        await trio.sleep(CONNECT_SECONDS / 2)
        assert asked == []
        await trio.sleep(4 * LINKS_SECONDS)
        assert len(asked) == 4
        nursery.cancel_scope.cancel()


def test_a_role_that_is_not_served_has_nothing_to_say() -> None:
    quota_checks = QuotaChecks({Role.LEADER: throttle(MIB)})
    quota_checks.look(0.0)
    quota_checks.look(ALONE_SECONDS)
    assert quota_checks.quota_warnings(Role.FOLLOWER) == ()
    assert quota_checks.passing(Role.FOLLOWER) == RoleRates()


async def test_it_looks_once_a_second(autojump_clock: trio.testing.MockClock) -> None:
    leader = throttle(MIB)
    quota_checks = QuotaChecks({Role.LEADER: leader})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(quota_checks.run)
        await trio.sleep(LOOK_SECONDS / 2)
        for _ in range(5):
            leader.statistics.relayed_response_bytes += 1000
            await trio.sleep(LOOK_SECONDS)
        nursery.cancel_scope.cancel()
    assert quota_checks.passing(Role.LEADER).other == 1000.0


def test_bytes_between_racks_are_counted_from_the_beginning_of_their_connection() -> None:
    """Also those that were relayed before racks were known, or after the last look."""
    leader = throttle(MIB)
    leader.racks = Racks(101)
    link = Conversation(leader).link
    link.peer, link.relayed.response_bytes = "102", 1000
    checks = QuotaChecks({Role.LEADER: leader})
    checks.look(0.0)
    assert leader.statistics.cross_rack_response_bytes == 0
    leader.racks.learn({101: "a", 102: "b"})
    checks.look(1.0)
    assert leader.statistics.cross_rack_response_bytes == 1000
    link.relayed.response_bytes += 234
    link.close()
    assert leader.statistics.cross_rack_response_bytes == 1234


async def test_a_topic_that_there_is_not_is_warned_of_until_the_list_is_put_right(tmp_path: Path) -> None:
    """With real files and sockets, and so in real time: what waits is waited for."""
    path = tmp_path / "quotas.toml"
    path.write_text(NAMED)
    watch = QuotaWatch.open(path, broker_id=101, log=RecordedLog())
    leader = throttle(MIB)
    leader.apply(watch.current, 0.0)
    leader.statistics.connections = 1
    broker, quota_checks = MetadataBroker({"orders": 3}), QuotaChecks({Role.LEADER: leader})
    async with broker.listening() as address, trio.open_nursery() as nursery:
        nursery.start_soon(follow, quota_checks.topics_question(watch), (address,), RecordedLog())
        with trio.fail_after(30):
            while not quota_checks.quota_warnings(Role.LEADER):
                quota_checks.look(1.0)
                await trio.sleep(0.05)
            (warning,) = quota_checks.quota_warnings(Role.LEADER)
            assert "ordrs (no such topic)" in warning.text
            path.write_text(NAMED.replace("ordrs", "orders"))
            await watch.reload("test")
            leader.apply(watch.current, 2.0)
            quota_checks.look(2.0)
            assert quota_checks.quota_warnings(Role.LEADER) == ()
        nursery.cancel_scope.cancel()


def test_a_tiny_rate_is_warned_of_at_once() -> None:
    leader = throttle(50)
    quota_checks = QuotaChecks({Role.LEADER: leader})
    quota_checks.look(0.0)
    assert [warning.reason for warning in quota_checks.quota_warnings(Role.LEADER)] == [Reason.TINY_RATE]
    leader.apply(Quotas(leader=RoleQuota.of_every_topic(50 * MIB)), 1.0)
    quota_checks.look(1.0)
    assert quota_checks.quota_warnings(Role.LEADER) == ()


async def test_a_look_is_taken_when_it_is_wanted_and_kept_for_a_second(autojump_clock: MockClock) -> None:
    shared = throttle()
    replica_stats_task = ReplicaStatsTask({Role.LEADER: shared}, LoopShare())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(replica_stats_task.run)
        await trio.sleep(5)
        Conversation(shared, offsets={("t", 0): 0}).meet()
        assert replica_stats_task.last(Role.LEADER) == ReplicaStats()  # nobody wanted one
        await replica_stats_task.refresh()
        assert replica_stats_task.last(Role.LEADER).behind == 1
        Conversation(shared, offsets={("t", 0): 0}).meet()
        await replica_stats_task.refresh()
        assert replica_stats_task.last(Role.LEADER).behind == 1  # of the same second
        await trio.sleep(MIN_PAUSE_SECONDS * 1.01)
        await replica_stats_task.refresh()
        assert replica_stats_task.last(Role.LEADER).behind == 2
        assert replica_stats_task.last(Role.FOLLOWER) == ReplicaStats()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("took", "pause"), [(0.0, 1.0), (0.1, 1.0), (0.5, 4.5), (60.0, MAX_PAUSE_SECONDS)])
def test_looks_take_a_tenth_of_the_loop_at_most(took: float, pause: float) -> None:
    assert pause_seconds(took) == pytest.approx(pause)


@pytest.mark.parametrize(
    ("quota", "own", "lower"),
    [(MIB, MIB - 1, MIB - 1), (MIB, 0, 0), (MIB, MIB, None), (0, 0, None), (math.inf, 1, None), (MIB, None, None)],
)
def test_kafkas_own_rate_is_told_only_where_it_is_below_a_quota_in_force(
    quota: float, own: int | None, lower: int | None
) -> None:
    quota_checks = QuotaChecks({Role.LEADER: throttle(quota)})
    quota_checks.learn_kafka_rates({Role.FOLLOWER: 1} if own is None else {Role.LEADER: own})
    assert quota_checks.lower_kafka_rate(Role.LEADER) == lower
