"""Who goes first: what is in need is done before others have moved a tenth, and nobody starves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from protocol.metadata import ReplicaCount

from ..proxy.conversation import MIB
from .drawn import Rates
from .ledger import worst_window
from .scene import Act, Fetch, Outcome, Scene
from .sidecar import SidecarSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .scene import World

QUOTA = 8.0 * MIB
BACKLOG = 16.0 * MIB
"""Of each partition."""
pytestmark = pytest.mark.timeout(300)
NEED = {"dying": ReplicaCount(3, 1), "short": ReplicaCount(3, 2), "moved": ReplicaCount(4, 3)}
FULL = ReplicaCount(3, 3)
"""Another partition of the topic, which says how many replicas there are to be."""


class Follower(NamedTuple):
    """Of how many partitions of each kind it is behind."""

    one_way_ms: float = 0.5
    dying: int = 0
    short: int = 0
    moved: int = 0


def tell(world: World) -> None:
    for sidecar in world.sidecars.values():
        sidecar.urgency.look(NEED)
        answer = {name: {**dict.fromkeys(range(100), has), 100: FULL} for name, has in NEED.items()}
        sidecar.urgency.learn(answer, NEED, 0.0)


def run(
    followers: tuple[Follower, ...],
    seconds: float,
    *,
    version: int = 12,
    leader_rate: float = QUOTA,
    follower_rate: float | None = None,
    topics: Mapping[str, float] | None = None,
) -> Outcome:
    """Run one leader; every partition is another follower's too, so their numbers differ."""
    sidecars = {0: SidecarSpec(Rates(leader=leader_rate, topics=topics or {}).toml, egress=False)}
    fetches = []
    for number, each in enumerate(followers, 1):
        counts = {name: getattr(each, name) for name in ("dying", "short", "moved") if getattr(each, name)}
        fetches.append(
            Fetch(
                number, 0, counts, each.one_way_ms, version=version, first=10 * number, backlog=BACKLOG, sizes=(1000,)
            )
        )
        if follower_rate is not None:
            sidecars[number] = SidecarSpec(Rates(follower=follower_rate).toml, ingress=False)
    outcome = Scene(sidecars, tuple(fetches), acts=(Act(0.0, "told", tell),)).run(seconds)
    assert outcome.wrong == []
    return outcome


def done_at(outcome: Outcome, name: str) -> float:
    """Return when the last partition of this kind had all."""
    for fetcher in outcome.fetchers.values():
        for key, offset in fetcher.wants.items():
            assert key[0] != name or offset >= fetcher.leader.log(key).end_offset
    return max(each.at for each in outcome.ledger.arrivals if each.topic == name)


def moved_until(outcome: Outcome, name: str, until: float) -> float:
    """Return how much of a partition of this kind has come by then, of the one with most: 1 is all of it."""
    sizes: dict[object, int] = {}
    for each in outcome.ledger.arrivals:
        if each.topic == name and each.at <= until:
            sizes[each.key] = sizes.get(each.key, 0) + each.size
    return max(sizes.values(), default=0) / BACKLOG


@pytest.mark.parametrize(("version", "follower_rate"), [(12, None), (3, None), (12, QUOTA)])
@pytest.mark.parametrize(
    "followers",
    [
        (Follower(dying=1), Follower(moved=1)),
        (Follower(dying=1, moved=1),),
        (Follower(dying=1, moved=4), Follower(moved=4), Follower(moved=4)),
        (Follower(20, dying=1), *[Follower(moved=3)] * 4),
    ],
)
def test_what_is_under_min_isr_is_done_before_others_have_moved_a_tenth(
    followers: tuple[Follower, ...], follower_rate: float | None, version: int
) -> None:
    outcome = run(followers, 5.0, version=version, follower_rate=follower_rate)
    until = done_at(outcome, "dying")
    assert until <= 1.35 * sum(each.dying for each in followers) * BACKLOG / QUOTA + 0.5
    # Two quotas of the same rate, one at each end, leave a little that the first cannot use.
    assert 0 < moved_until(outcome, "moved", until) <= (0.1 if follower_rate is None else 0.14)


def test_one_class_goes_after_the_other() -> None:
    outcome = run((Follower(dying=1, short=1, moved=1), Follower(short=1, moved=1), Follower(moved=2)), 12.0)
    first, second = done_at(outcome, "dying"), done_at(outcome, "short")
    assert first < second
    assert moved_until(outcome, "short", first) <= 0.1
    assert moved_until(outcome, "moved", second) <= 0.16


@pytest.mark.parametrize("one_way_ms", [0.5, 120])
def test_what_the_first_cannot_use_the_others_have(one_way_ms: float) -> None:
    """One partition far away has a megabyte in each round trip at most; the quota is used all the same."""
    rate = 32.0 * MIB
    outcome = run((Follower(one_way_ms, dying=1), Follower(moved=12)), 4.0, leader_rate=rate)
    assert sum(outcome.rates(1.0).values()) >= 0.9 * rate
    assert worst_window(outcome.ledger.departures, 1.0) <= 1.25 * rate


def test_nobody_starves() -> None:
    """Ten partitions in need, for all of the time: of the others each connection has its share."""
    outcome = run((Follower(60, dying=10, short=4, moved=4), Follower(moved=4)), 20.0)
    found = outcome.rates(0.0, lambda each: (each.follower, each.topic))
    assert min(found[1, "short"], found[1, "moved"], found[2, "moved"]) >= 0.002 * QUOTA
    assert moved_until(outcome, "moved", 20.0) < 0.5


def test_finer_rates_hold_beside_priorities() -> None:
    outcome = run((Follower(dying=1, moved=2), Follower(moved=6)), 10.0, topics={"dying": 2.0 * MIB})
    every = outcome.ledger.departures
    assert worst_window([each for each in every if each.topic == "dying"], 1.0) <= 1.3 * 2 * MIB
    assert worst_window(every, 1.0) <= 1.3 * QUOTA
    assert done_at(outcome, "dying") == pytest.approx(8.0, abs=0.9)
    assert sum(outcome.rates(1.0, end=8.0).values()) >= 0.9 * QUOTA
