"""Rates of racks, peers and topics: each holds in every window, what one leaves the others have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..proxy.conversation import MIB
from .drawn import Rates
from .ledger import worst_window
from .scene import Fetch, Outcome, Scene
from .sidecar import SidecarSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from .ledger import Passed

QUOTA = 8.0 * MIB
SECONDS = 12.0
SETTLED = 2.0
pytestmark = pytest.mark.timeout(300)


def held(outcome: Outcome, rate: float, of: Callable[[Passed], bool], *, where: str = "arrivals") -> None:
    """Any second at most 1.3 times of the rate, any 11 at most 1.05; and a grant at least: 64 KiB."""
    found = [each for each in getattr(outcome.ledger, where) if of(each)]
    for seconds, most in ((1.0, 1.3), (11.0, 1.05)):
        assert worst_window(found, seconds) <= most * rate * seconds + 64 * 1024, seconds


def follower(rates: Rates, *fetches: Fetch, racks: dict[int, str] | None = None) -> Outcome:
    scene = Scene({0: SidecarSpec(rates.toml, ingress=False)}, fetches, racks=racks or {})
    outcome = scene.run(SECONDS)
    assert outcome.wrong == []
    return outcome


def by_leader(outcome: Outcome) -> dict[int, float]:
    return {leader: rate / MIB for leader, rate in outcome.rates(SETTLED, lambda each: each.leader).items()}


@pytest.mark.parametrize("one_way_ms", [0.5, 20, 100])
def test_a_peer_keeps_to_its_rate_and_the_others_have_the_rest(one_way_ms: float) -> None:
    """A follower fetches from three leaders, of which one may send it a megabyte a second."""
    rates = Rates(follower=QUOTA, peers={1: 1.0 * MIB}, role="follower")
    outcome = follower(rates, *(Fetch(0, leader, one_way_ms=one_way_ms) for leader in (1, 2, 3)))
    held(outcome, MIB, lambda each: each.leader == 1)
    held(outcome, QUOTA, lambda _: True)
    found = by_leader(outcome)
    assert found[1] >= 0.9
    assert found[2] == pytest.approx(3.5, rel=0.08)
    assert found[3] == pytest.approx(3.5, rel=0.08)


@pytest.mark.parametrize("one_way_ms", [0.5, 20])
@pytest.mark.parametrize("connections", [1, 4])
def test_leaders_of_a_rack_share_its_rate_and_keep_to_their_own(one_way_ms: float, connections: int) -> None:
    """Of 8 MiB/s 4 are a rack's, of which 1 is the first leader's: the second has 3, and the other rack's leader 4, or
    near to it, whether each has one connection or four (num.replica.fetchers)."""
    rates = Rates(follower=QUOTA, peers={1: 1.0 * MIB}, racks={"b": 4.0 * MIB}, role="follower")
    fetches = (Fetch(0, leader, {"t": 4}, one_way_ms, connections=connections) for leader in (1, 2, 3))
    outcome = follower(rates, *fetches, racks={0: "a", 1: "b", 2: "b", 3: "c"})
    held(outcome, MIB, lambda each: each.leader == 1)
    held(outcome, 4 * MIB, lambda each: each.leader in (1, 2))
    held(outcome, QUOTA, lambda _: True)
    found = by_leader(outcome)
    assert found == pytest.approx({1: 1.0, 2: 3.0, 3: 4.0}, rel=0.3)
    assert sum(found.values()) >= 0.94 * 8
    for leader in (1, 2, 3):
        of_leader = [rate for name, rate in outcome.rates(SETTLED).items() if name.startswith(f"0<{leader}")]
        assert min(of_leader) >= 0.55 * max(of_leader)


@pytest.mark.parametrize("version", [3, 12])
def test_a_topic_keeps_to_its_rate_over_all_connections(version: int) -> None:
    """Three followers of one leader, all behind in both topics."""
    spec = SidecarSpec(Rates(leader=QUOTA, topics={"slow": 1.0 * MIB}).toml, egress=False)
    topics = {"slow": 4, "t": 4}
    outcome = Scene({0: spec}, tuple(Fetch(n, 0, topics, version=version) for n in (1, 2, 3))).run(SECONDS)
    assert outcome.wrong == []
    held(outcome, MIB, lambda each: each.topic == "slow", where="departures")
    held(outcome, QUOTA, lambda _: True, where="departures")
    found = outcome.rates(SETTLED, lambda each: (each.follower, each.topic))
    assert sum(rate for (_, topic), rate in found.items() if topic == "slow") >= 0.85 * MIB
    assert sum(found.values()) >= 0.95 * QUOTA
    for each in (1, 2, 3):  # none of them starves in either
        assert found[each, "slow"] >= 0.2 * MIB
        assert found[each, "t"] >= 1.9 * MIB


@pytest.mark.parametrize("one_way_ms", [(0.5, 0.5), (60, 20), (20, 60)])
@pytest.mark.parametrize(("rate", "topic_rate"), [(1.0, 0.1), (4.0, 0.4), (4.0, 1.0)])
def test_a_topic_is_shared_by_itself(rate: float, topic_rate: float, one_way_ms: tuple[float, float]) -> None:
    """One lacks four partitions of it, the other one of it and one of another topic: it had none while the first
    lacked any."""
    spec = SidecarSpec(Rates(leader=rate * MIB, topics={"slow": topic_rate * MIB}).toml, egress=False)
    fetches = (
        Fetch(1, 0, {"slow": 4}, one_way_ms[0]),
        Fetch(2, 0, {"slow": 1, "t": 1}, one_way_ms[1], first=10),
    )
    outcome = Scene({0: spec}, fetches).run(22)
    assert outcome.wrong == []
    found = outcome.rates(SETTLED, lambda each: (each.follower, each.topic))
    assert found[1, "slow"] >= 0.85 * topic_rate / 2 * MIB
    assert found[2, "slow"] >= 0.85 * topic_rate / 2 * MIB
    assert found[2, "t"] >= 0.85 * (rate - topic_rate) * MIB


def test_both_ends_may_have_finer_rates() -> None:
    own = Rates(leader=QUOTA, follower=QUOTA, peers={1: 2.0 * MIB}, topics={"slow": 1.0 * MIB}, role="follower")
    of_leader = Rates(leader=QUOTA, follower=QUOTA, peers={0: 3.0 * MIB}, topics={"slow": 1.0 * MIB})
    sidecars = {0: SidecarSpec(own.toml), 1: SidecarSpec(of_leader.toml), 2: SidecarSpec(of_leader.toml)}
    topics = {"slow": 4, "t": 4}
    outcome = Scene(sidecars, (Fetch(0, 1, topics), Fetch(0, 2, topics))).run(SECONDS)
    assert outcome.wrong == []
    held(outcome, 2 * MIB, lambda each: each.leader == 1)
    held(outcome, 3 * MIB, lambda each: each.leader == 2, where="departures")
    held(outcome, MIB, lambda each: each.topic == "slow")
    found = by_leader(outcome)
    assert found[1] >= 1.6
    assert found[2] >= 2.4
