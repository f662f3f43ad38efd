"""A sidecar at each end of a connection, or a leader that throttles: what one leaves out the other makes up."""

from __future__ import annotations

import pytest

from ..proxy.conversation import MIB
from .drawn import Rates
from .scene import Act, Fetch, Outcome, Scene, World
from .sidecar import SidecarSpec

QUOTA = 4.0 * MIB
pytestmark = pytest.mark.timeout(300)


def by_partition(outcome: Outcome, begin: float, end: float | None = None) -> dict[int, float]:
    """Return bytes per second of each partition, by its number; they differ from connection to connection."""
    had = outcome.rates(begin, lambda each: each.key[1], end)
    return {key[1]: had.get(key[1], 0.0) for fetcher in outcome.fetchers.values() for key in fetcher.wants}


@pytest.mark.parametrize("version", [3, 12])
@pytest.mark.parametrize(
    ("leader", "follower", "partitions", "seconds"), [(1, 1, 12, 60), (1, 2, 40, 120), (2, 1, 40, 120), (1, 1, 40, 120)]
)
def test_partitions_of_one_connection_are_brought_alike(
    leader: float, follower: float, partitions: int, seconds: float, version: int
) -> None:
    """In six rounds most and least had 183 : 1. What the leader's side left out counted as served on the follower's;
    a request was answered without records, since its replica had not been heard of for long; and a connection whose
    last request was for three bytes had no part of more."""
    sidecars = {
        0: SidecarSpec(Rates(leader=leader * QUOTA).toml, egress=False),
        1: SidecarSpec(Rates(follower=follower * QUOTA).toml, ingress=False),
    }
    outcome = Scene(sidecars, (Fetch(1, 0, {"t": partitions}, connections=5, version=version),)).run(seconds)
    assert outcome.wrong == []
    assert sum(outcome.rates().values()) >= 0.97 * QUOTA
    of_connections, of_partitions = outcome.rates().values(), by_partition(outcome, 0).values()
    assert max(of_connections) <= 1.1 * min(of_connections)
    assert max(of_partitions) <= 1.6 * min(of_partitions)


@pytest.mark.parametrize(("version", "least"), [(3, 0.9), (12, 0.35)])
@pytest.mark.parametrize("egress", [True, False])
def test_a_leaders_own_throttle_of_some_partitions_holds_the_others_up_little(
    version: int, least: float, egress: bool
) -> None:
    """While the leader sends nothing of two of four, the others have what comes; afterwards all have as much. In a
    fetch session a grant that brings nothing is perhaps too small, so the next is larger, up to all of the room."""

    def withhold(world: World) -> None:
        world.broker(0).withholds = {key for key in world.fetchers["1<0"].wants if key[1] < 2}

    def send(world: World) -> None:
        world.broker(0).withholds.clear()

    spec = SidecarSpec(Rates(leader=QUOTA, follower=QUOTA).toml, ingress=not egress, egress=egress)
    acts = (Act(0.5, "throttled", withhold), Act(20.0, "not throttled", send))
    outcome = Scene({int(egress): spec}, (Fetch(1, 0, {"t": 4}, version=version),), acts=acts).run(32)
    assert outcome.wrong == []
    had = by_partition(outcome, 5, 20)
    assert had[2] + had[3] >= least * QUOTA
    had = by_partition(outcome, 22)
    assert max(had.values()) <= 1.3 * min(had.values())
