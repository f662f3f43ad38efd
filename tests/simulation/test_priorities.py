"""Who goes first, in virtual time: what is in need is done before others have moved a tenth, and nobody starves."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from protocol.fetch.tables import FIRST_VERSION_WITH_SESSIONS
from protocol.metadata import ReplicaCount
from proxy.quotas.finer_rates import NO_FINER_RATES, FinerRates

from ..proxy.conversation import MIB
from ..proxy.session_conversation import MESSAGE_BYTES
from .figures import worst_window
from .world import Connection, World

QUOTA = 8 * MIB
MESSAGES = 16 * MIB // MESSAGE_BYTES
"""Of each partition."""
pytestmark = pytest.mark.timeout(300)
SLOW = [pytest.mark.simulation, pytest.mark.timeout(1200)]
NEED = {"dying": ReplicaCount(3, 1), "short": ReplicaCount(3, 2), "moved": ReplicaCount(4, 3)}
FULL = ReplicaCount(3, 3)
"""Another partition of the topic, which says how many replicas there are to be."""


class Follower(NamedTuple):
    """`hop_ms` one way; of how many partitions of each kind it is behind."""

    hop_ms: float = 0.5
    dying: int = 0
    short: int = 0
    moved: int = 0


def told(world: World) -> None:
    for broker in world.brokers.values():
        for side in (broker.egress, broker.ingress):
            if side is not None:
                side.needs.look(NEED)
                answer = {name: {**dict.fromkeys(range(100), has), 100: FULL} for name, has in NEED.items()}
                side.needs.learn(answer, NEED, 0.0)


def run(
    followers: tuple[Follower, ...],
    seconds: float,
    *,
    version: int = 12,
    leader_rate: float | None = QUOTA,
    follower_rate: float | None = None,
    finer: FinerRates = NO_FINER_RATES,
) -> list[Connection]:
    """Of one leader; every partition is another follower's too, so their numbers differ."""
    numbers = range(1, len(followers) + 1)
    world = World((0, *numbers), leader_rate=leader_rate, follower_rate=follower_rate, version=version, finer=finer)
    told(world)
    made = []
    for number, each in zip(numbers, followers, strict=True):
        keys = [
            (name, 10 * number + partition)
            for name, count in (("dying", each.dying), ("short", each.short), ("moved", each.moved))
            for partition in range(count)
        ]
        made.append(world.connect(number, 0, keys, messages=MESSAGES, hop=each.hop_ms / 1000))
    world.run(seconds)
    return made


def done_at(made: list[Connection], name: str) -> float:
    """When the last partition of this kind had all."""
    last = {}
    for each in itertools.chain.from_iterable(connection.arrivals for connection in made):
        if each.key[0] == name:
            last[each.key] = each.at
    missing = [key for connection in made for key, at in connection.wants.items() if key[0] == name and at < MESSAGES]
    assert not missing
    return max(last.values())


def moved_until(made: list[Connection], name: str, until: float) -> float:
    """How much of a partition of this kind has come by then, the one with most: 1 is all of it."""
    sizes: dict[object, int] = {}
    for each in itertools.chain.from_iterable(connection.arrivals for connection in made):
        if each.key[0] == name and each.at <= until:
            sizes[each.key] = sizes.get(each.key, 0) + each.size
    return max(sizes.values(), default=0) / MESSAGES / MESSAGE_BYTES


@pytest.mark.parametrize("version", [3, 12])
@pytest.mark.parametrize("follower_rate", [None, QUOTA])
@pytest.mark.parametrize(
    "followers",
    [
        (Follower(dying=1), Follower(moved=1)),
        (Follower(dying=1, moved=1),),
        (Follower(dying=1, moved=4), Follower(moved=4), Follower(moved=4)),
        (Follower(20, dying=1), *[Follower(moved=3)] * 6),
        (Follower(dying=2, moved=2), Follower(40, moved=2), Follower(moved=2)),
    ],
)
def test_what_is_under_min_isr_is_done_before_others_have_moved_a_tenth(
    followers: tuple[Follower, ...], follower_rate: float | None, version: int
) -> None:
    made = run(followers, 12.0, version=version, follower_rate=follower_rate)
    until = done_at(made, "dying")
    dying = sum(each.dying for each in followers)
    assert until <= 1.35 * dying * 16 * MIB / QUOTA + 0.5
    # Two quotas of the same rate, one at each end, leave a little that the first cannot use.
    assert 0 < moved_until(made, "moved", until) <= (0.1 if follower_rate is None else 0.13)


def test_one_class_goes_after_the_other() -> None:
    followers = (Follower(dying=1, short=1, moved=1), Follower(short=1, moved=1), Follower(moved=2))
    made = run(followers, 20.0)
    first, second = done_at(made, "dying"), done_at(made, "short")
    assert first < second
    assert moved_until(made, "short", first) <= 0.1
    assert moved_until(made, "moved", second) <= 0.15


@pytest.mark.parametrize("hop_ms", [0.5, 60, 120])
def test_what_the_first_cannot_use_the_others_have(hop_ms: float) -> None:
    """One partition far away has a megabyte in each round trip at most; the quota is used all the same."""
    rate = 32 * MIB
    made = run((Follower(hop_ms, dying=1), Follower(moved=12)), 4.0, leader_rate=rate)
    got = sum(each.bytes_between(1.0, 4.0) for each in made) / 3
    assert got >= 0.9 * rate
    assert worst_window(made[0].departures + made[1].departures, 1.0) <= 1.25 * rate


@pytest.mark.parametrize("hop_ms", [0.5, 60])
def test_nobody_starves(hop_ms: float) -> None:
    """Ten partitions in need, for all of the time: of the others each connection has its share."""
    made = run((Follower(hop_ms, dying=10, short=4, moved=4), Follower(moved=4)), 20.0)
    for each in made:
        for name in ("short", "moved"):
            size = sum(arrival.size for arrival in each.arrivals if arrival.key[0] == name)
            keys = [key for key in each.wants if key[0] == name]
            assert not keys or size >= 0.002 * QUOTA * 20
    assert moved_until(made, "moved", 20.0) < 0.5


def test_finer_rates_hold_beside_priorities() -> None:
    finer = FinerRates(topics={"dying": 2.0 * MIB})
    made = run((Follower(dying=1, moved=2), Follower(moved=6)), 10.0, finer=finer)
    every = made[0].departures + made[1].departures
    assert worst_window([each for each in every if each.key[0] == "dying"], 1.0) <= 1.3 * 2 * MIB
    assert worst_window(every, 1.0) <= 1.3 * QUOTA
    assert done_at(made, "dying") == pytest.approx(8.0, abs=0.8)
    assert sum(each.bytes_between(1.0, 8.0) for each in made) / 7 >= 0.9 * QUOTA


def clusters(most: int) -> st.SearchStrategy[tuple[Follower, ...]]:
    counts = st.integers(0, 4)
    follower = st.builds(Follower, st.floats(0.2, 60), counts, counts, st.integers(1, 6))
    return st.lists(follower, min_size=1, max_size=most).map(tuple)


def bounds_hold(followers: tuple[Follower, ...], version: int, follower_rate: float | None) -> None:
    """Any second at most 1.25 times of the quota, any 11 at most 1.05. Where followers have quotas of their own, 1.3:
    what a follower's quota delays comes late at the leader, beside what the others were granted meanwhile.

    Of the quota 0.85 is used. Two far followers without sessions use less for a while where both ends have the same
    rate: each end lets what is in sync wait at the leader until its budget is there again, one after the other, and
    each such wait costs a round trip (1 of 400 drawn clusters of v3 below 0.85, at 0.81)."""
    a_second = 1.25 if follower_rate is None else 1.3
    used = 0.8 if version < FIRST_VERSION_WITH_SESSIONS and follower_rate is not None else 0.85
    made = run(followers, 12.0, version=version, follower_rate=follower_rate)
    departures = list(itertools.chain.from_iterable(each.departures for each in made))
    for seconds, most in ((1.0, a_second), (11.0, 1.05)):
        assert worst_window(departures, seconds) <= most * QUOTA * seconds + 64 * 1024
    wanted = sum(each.dying + each.short + each.moved for each in followers) * 16 * MIB
    assert sum(each.size for each in departures) >= min(used * QUOTA * 12, 0.99 * wanted)
    for each in made:
        assert each.arrivals


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(4), st.sampled_from([3, 12, 17]), st.sampled_from([None, QUOTA]))
@example(
    # What came late of eight connections came in one second: 1.302 times of the leader's quota.
    (
        Follower(3.0, 0, 2, 2), Follower(4.1875, 1, 1, 1), Follower(14.0, 2, 1, 1), Follower(1.0, 2, 1, 1),
        Follower(17.0, 0, 1, 1), Follower(37.0, 1, 0, 1), Follower(21.0, 2, 1, 1), Follower(43.0, 0, 1, 1),
    ),
    3,
    QUOTA,
)  # fmt: skip
def test_quotas_hold_and_are_used_whatever_is_in_need(
    followers: tuple[Follower, ...], version: int, follower_rate: float | None
) -> None:
    bounds_hold(followers, 12 if version == 17 else version, follower_rate)


@pytest.mark.parametrize("mark", [pytest.param(None, marks=SLOW)])
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(followers=(Follower(34.0, 0, 1, 2), Follower(37.0, 1, 1, 1)), version=3, follower_rate=QUOTA)
@given(followers=clusters(8), version=st.sampled_from([3, 12]), follower_rate=st.sampled_from([None, QUOTA]))
def test_quotas_hold_in_many_clusters(
    mark: None, followers: tuple[Follower, ...], version: int, follower_rate: float | None
) -> None:
    bounds_hold(followers, version, follower_rate)
