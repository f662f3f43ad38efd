"""Peers and moments that cost others something once: each scene is small, and of a kind."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from ..proxy.conversation import MIB
from .clients import Client
from .drawn import Rates
from .faults import half_fetch
from .judges import budget_checks, figures
from .scene import Act, Fetch, Scene
from .sidecar import SidecarSpec

if TYPE_CHECKING:
    from .scene import World

QUOTA = 4.0 * MIB
pytestmark = pytest.mark.timeout(300)


def test_replicas_of_a_topic_at_rate_0_take_no_other_replicas_place() -> None:
    """500 replicas and more that may have nothing came first at every fetch: the others had nothing either."""
    spec = SidecarSpec(Rates(leader=QUOTA, topics={"none": 0.0}).toml, egress=False)
    outcome = Scene({1: spec}, (Fetch(2, 1, {"none": 600, "t": 4}), Fetch(3, 1, {"t": 4}, first=10))).run(12)
    assert outcome.wrong == []
    found = outcome.rates(5, lambda each: (each.follower, each.topic))
    assert found[2, "t"] >= 0.9 * QUOTA / 2
    assert found[3, "t"] >= 0.9 * QUOTA / 2


def _reset_all(world: World) -> None:
    for end in list(world.open_ends()):
        end.reset()


@pytest.mark.parametrize("leader", [QUOTA, None])
def test_what_connections_were_granted_comes_back_when_they_break(leader: float | None) -> None:
    """Every grant is given back, so the quota is used as before by those that come again."""
    spec = SidecarSpec(Rates(leader=leader, follower=QUOTA).toml, ingress=leader is not None, egress=leader is None)
    fetches = (Fetch(2, 1), Fetch(2, 3, one_way_ms=20)) if leader is None else (Fetch(2, 1), Fetch(3, 1, one_way_ms=20))
    acts = tuple(Act(2 + each / 7, "reset", _reset_all) for each in range(30))
    outcome = Scene({2 if leader is None else 1: spec}, fetches, acts=acts).run(16)
    assert outcome.wrong == []
    assert outcome.world.left == []
    assert sum(outcome.rates(9).values()) >= 0.93 * QUOTA


@pytest.mark.parametrize("version", [3, 11, 12])
def test_frames_of_which_the_end_never_comes_are_given_back(version: int) -> None:
    """Whatever is held of a frame is released when its connection ends, by an error, too."""
    spec = SidecarSpec(Rates(leader=QUOTA).toml, egress=False)
    acts = tuple(
        Act(
            1 + part / 10,
            "half_frame",
            partial(half_fetch, leader=1, version=version, part=part / 10, seconds=0.5, count=9000),
        )
        for part in range(10)
    )
    outcome = Scene({1: spec}, (Fetch(2, 1, version=version),), acts=acts).run(6)
    assert outcome.wrong == []
    assert outcome.world.left == []


def test_a_consumer_over_its_quota_is_bounded_and_a_producer_beside_it_is_not() -> None:
    quotas = Rates(leader=QUOTA).toml + "[clients.etl]\nconsumer_byte_rate = 500000\n"
    clients = (Client("consumer", 1, "etl", {"c": 4}), Client("producer", 1, "app", {"p": 1}, rate=200_000))

    def fill(world: World) -> None:
        for partition in range(4):
            world.broker(1).append(("c", partition), 10_000)

    spec = SidecarSpec(quotas, egress=False)
    outcome = Scene({1: spec}, (Fetch(2, 1),), clients, acts=(Act(0.5, "filled", fill),)).run(30)
    assert outcome.wrong == []
    assert outcome.world.left == []
    found = outcome.rates(8)
    assert found["etl"] == pytest.approx(500_000, rel=0.15)
    assert outcome.fetchers["etl"].throttled_seconds > 5
    written = world_end(outcome.world, ("p", 0))
    assert written == pytest.approx(30 * 200_000, rel=0.1)
    assert found["2<1"] >= 0.9 * QUOTA


def world_end(world: World, key: tuple[str, int]) -> int:
    log = world.broker(1).log(key)
    return log.border(log.end)


def test_one_that_was_in_sync_for_long_does_not_make_up_for_it() -> None:
    """Two partitions of one connection, of which one falls behind late: without a level it had all until it had as much
    as the other: 40 MB and 0.4."""

    def fall_behind(world: World) -> None:
        world.broker(1).append(("live", 0), 40_000)

    spec = SidecarSpec(Rates(leader=QUOTA).toml, egress=False)
    fetch = Fetch(2, 1, {"t": 1}, live={"live": 1}, written=10_000)
    outcome = Scene({1: spec}, (fetch,), acts=(Act(10.0, "fell behind", fall_behind),)).run(16)
    assert outcome.wrong == []
    found = outcome.rates(11, lambda each: each.topic)
    assert found["t"] >= 0.35 * QUOTA
    assert found["live"] >= 0.35 * QUOTA


@pytest.mark.parametrize("window", [1000, 10_000])
def test_small_windows_change_no_byte(window: int) -> None:
    """What was not sent of an edited answer waits, and is sent once."""

    def narrow(world: World) -> None:
        for line in world.lines.values():
            line.window = window

    spec = SidecarSpec(Rates(leader=QUOTA / 8, follower=QUOTA / 8).toml)
    fetches = (Fetch(2, 1, {"t": 60}, version=3), Fetch(2, 3, {"u": 200}, version=12))
    outcome = Scene(dict.fromkeys((1, 2, 3), spec), fetches, acts=(Act(0.0, "narrow", narrow),)).run(12)
    assert outcome.wrong == []
    assert figures(outcome) == []
    assert sum(outcome.rates().values()) >= 0.3 * QUOTA / 8


@pytest.mark.parametrize("factor", [0.25, 4.0])
def test_another_quota_holds_at_once(factor: float) -> None:
    text = Rates(leader=QUOTA).toml
    other = Rates(leader=QUOTA * factor).toml
    act = Act(8.0, "quota_change", lambda world: world.sidecars[1].change(other))
    fetches = (Fetch(2, 1), Fetch(3, 1, one_way_ms=30))
    outcome = Scene({1: SidecarSpec(text, egress=False)}, fetches, acts=(act,)).run(16)
    assert outcome.wrong == []
    assert sum(outcome.rates(9).values()) == pytest.approx(QUOTA * factor, rel=0.06)
    (check,) = budget_checks(outcome)
    assert check.excess <= check.allowed
    assert figures(outcome) == []


@pytest.mark.parametrize("version", [3, 12])
@pytest.mark.parametrize(("connections", "backoff"), [(8, 0.02), (5, 1.0)])
def test_peers_that_are_refused_cost_a_follower_nothing(connections: int, backoff: float, version: int) -> None:
    """Without ClusterAction all of its replicas are refused at once: the follower had 0.00 of 4 MiB/s beside eight."""

    def act(world: World) -> None:
        world.broker(1).refuses.add(700)
        world.add(Fetch(700, 1, connections=connections, first=500, version=version), backoff_seconds=backoff)

    spec = SidecarSpec(Rates(leader=QUOTA).toml, egress=False)
    outcome = Scene({1: spec}, (Fetch(2, 1, version=version),), acts=(Act(1.0, "refused", act),)).run(8)
    assert sum(outcome.rates(3, lambda each: each.follower).values()) >= 0.97 * QUOTA
