"""Rates of racks, peers and topics in virtual time: each holds in every window, what one leaves the others have.

The replica id of every simulated follower's Fetch is 102, so in a leader's sidecar all followers are one peer; in a
follower's sidecar each leader is a peer of its own.
"""

from __future__ import annotations

import itertools
import math
import statistics
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.quotas.finer_rates import FinerRates

from ..proxy.conversation import MIB
from .figures import worst_window
from .world import Arrival, Connection, World

if TYPE_CHECKING:
    from collections.abc import Iterable

QUOTA = 8 * MIB
SECONDS = 12.0
SETTLED_SECONDS = 2.0
pytestmark = pytest.mark.timeout(300)
SLOW = [pytest.mark.simulation, pytest.mark.timeout(1200)]


def held(arrivals: Iterable[Arrival], rate: float) -> None:
    """Any second at most 1.3 times of the rate, any 11 at most 1.05; and a grant at least: 64 KiB."""
    found = list(arrivals)
    for seconds, most in ((1.0, 1.3), (11.0, 1.05)):
        assert worst_window(found, seconds) <= most * rate * seconds + 64 * 1024, seconds


def rate_of(arrivals: Iterable[Arrival]) -> float:
    return sum(each.size for each in arrivals if each.at >= SETTLED_SECONDS) / (SECONDS - SETTLED_SECONDS)


def joined(connections: Iterable[Connection]) -> list[Arrival]:
    return list(itertools.chain.from_iterable(each.departures for each in connections))


@pytest.mark.parametrize("hop_ms", [0.5, 20, 100])
def test_a_peer_keeps_to_its_rate_and_the_others_have_the_rest(hop_ms: float) -> None:
    """A follower fetches from three leaders, of which one may send it a megabyte a second."""
    world = World((0, 1, 2, 3), leader_rate=None, follower_rate=QUOTA, finer=FinerRates(peers={1: 1.0 * MIB}))
    slow, *others = (
        world.connect(0, leader, [("t", each) for each in range(8)], hop=hop_ms / 1000) for leader in (1, 2, 3)
    )
    world.run(SECONDS)
    held(slow.arrivals, MIB)
    held(itertools.chain(slow.arrivals, *(each.arrivals for each in others)), QUOTA)
    assert rate_of(slow.arrivals) >= 0.9 * MIB
    for each in others:
        assert rate_of(each.arrivals) == pytest.approx(3.5 * MIB, rel=0.08)


@pytest.mark.parametrize("hops_ms", [(0.5,), (16, 18, 20, 22, 24)])
@pytest.mark.parametrize("fetchers", [1, 4])
def test_leaders_of_a_rack_share_its_rate_and_keep_to_their_own(hops_ms: tuple[float, ...], fetchers: int) -> None:
    """Of 8 MiB/s 4 are a rack's, of which 1 is the first leader's: the second has 3, and the other rack's leader 4, or
    near to it, whether each has one connection or four (num.replica.fetchers).

    How the turns of twelve connections meet makes 5 % of the whole, more or less, between one hop and the next: what is
    used is judged over several."""
    of_hops = [rates_of_a_rack(hop_ms / 1000, fetchers) for hop_ms in hops_ms]
    rates = {leader: statistics.mean(each[leader] for each in of_hops) for leader in (1, 2, 3)}
    assert rates == pytest.approx({1: 1.0, 2: 3.0, 3: 4.0}, rel=0.25)
    assert sum(rates.values()) >= 0.96 * 8


def rates_of_a_rack(hop: float, fetchers: int) -> dict[int, float]:
    """MiB/s of each leader, which keep to what they may, and of whose connections each has its share."""
    finer = FinerRates(racks={"b": 4.0 * MIB}, peers={1: 1.0 * MIB})
    racks = {0: "a", 1: "b", 2: "b", 3: "c"}
    world = World((0, 1, 2, 3), leader_rate=None, follower_rate=QUOTA, finer=finer, racks=racks)
    made = {
        leader: [world.connect(0, leader, [("t", 8 * each + n) for n in range(4)], hop=hop) for each in range(fetchers)]
        for leader in (1, 2, 3)
    }
    world.run(SECONDS)
    arrivals = {leader: [a for each in links for a in each.arrivals] for leader, links in made.items()}
    held(sorted([*arrivals[1], *arrivals[2]]), 4 * MIB)
    held(sorted(arrivals[1]), MIB)
    held(sorted(itertools.chain.from_iterable(arrivals.values())), QUOTA)
    for links in made.values():
        shares = [rate_of(each.arrivals) for each in links]
        assert min(shares) >= 0.6 * max(shares)
    return {leader: rate_of(found) / MIB for leader, found in arrivals.items()}


@pytest.mark.parametrize("version", [3, 12])
def test_a_topic_keeps_to_its_rate_over_all_connections(version: int) -> None:
    """Three followers of one leader, all behind in both topics."""
    finer = FinerRates(topics={"slow": 1.0 * MIB})
    world = World((0, 1, 2, 3), leader_rate=QUOTA, follower_rate=None, version=version, finer=finer)
    behind = [(topic, partition) for topic in ("slow", "t") for partition in range(4)]
    served = [world.connect(follower, 0, behind) for follower in (1, 2, 3)]
    world.run(SECONDS)
    slow = [each for each in joined(served) if each.key[0] == "slow"]
    held(slow, MIB)
    held(joined(served), QUOTA)
    assert rate_of(slow) >= 0.85 * MIB
    assert rate_of(joined(served)) >= 0.95 * QUOTA
    for each in served:  # none of them starves in either
        assert rate_of(a for a in each.departures if a.key[0] == "slow") >= 0.2 * MIB
        assert rate_of(a for a in each.departures if a.key[0] == "t") >= 1.9 * MIB


def test_both_ends_may_have_finer_rates() -> None:
    finer = FinerRates(peers={1: 2.0 * MIB, 102: 3.0 * MIB}, topics={"slow": 1.0 * MIB})
    world = World((0, 1, 2), leader_rate=QUOTA, follower_rate=QUOTA, finer=finer)
    behind = [(topic, partition) for topic in ("slow", "t") for partition in range(4)]
    one, two = world.connect(0, 1, behind), world.connect(0, 2, behind)
    world.run(SECONDS)
    held(one.arrivals, 2 * MIB)
    held(two.departures, 3 * MIB)
    assert rate_of(one.arrivals) >= 1.6 * MIB
    assert rate_of(two.arrivals) >= 2.4 * MIB
    held([each for each in one.arrivals + two.arrivals if each.key[0] == "slow"], MIB)


def clusters(most: int) -> st.SearchStrategy[tuple[FinerRates, list[tuple[float, int]]]]:
    """Rates of up to three leaders and two topics; up to `most` connections: how far away, to which leader."""
    rates = st.integers(MIB // 2, 2 * QUOTA).map(float)
    finer = st.builds(
        FinerRates,
        peers=st.dictionaries(st.integers(1, 3), rates, max_size=3),
        topics=st.dictionaries(st.sampled_from(["a", "b"]), rates, max_size=2),
    )
    return st.tuples(finer, st.lists(st.tuples(st.floats(0.2, 40), st.integers(1, 3)), min_size=1, max_size=most))


def bounds_hold(finer: FinerRates, links: list[tuple[float, int]]) -> None:
    world = World((0, 1, 2, 3), leader_rate=None, follower_rate=QUOTA, finer=finer)
    behind = [(topic, partition) for topic in ("a", "b", "c") for partition in range(3)]
    made = [world.connect(0, leader, behind, hop=hop_ms / 1000) for hop_ms, leader in links]
    world.run(SECONDS)
    every = list(itertools.chain.from_iterable(each.arrivals for each in made))
    held(every, QUOTA)
    for peer, rate in finer.peers.items():
        held(itertools.chain.from_iterable(each.arrivals for each in made if each.leader == peer), rate)
    for topic, rate in finer.topics.items():
        held((each for each in every if each.key[0] == topic), rate)
    for each in made:
        least = min(QUOTA, finer.peers.get(each.leader, math.inf))
        assert rate_of(each.arrivals) >= 0.3 * least / len(made)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(4))
def test_every_rate_holds_in_every_window_and_nobody_starves(
    cluster: tuple[FinerRates, list[tuple[float, int]]],
) -> None:
    bounds_hold(*cluster)


@pytest.mark.parametrize("mark", [pytest.param(None, marks=SLOW)])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cluster=clusters(8))
def test_every_rate_holds_in_many_clusters(mark: None, cluster: tuple[FinerRates, list[tuple[float, int]]]) -> None:
    bounds_hold(*cluster)
