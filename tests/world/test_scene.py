"""The world itself: one seed gives one trace, every byte is the leader's, quotas hold."""

from __future__ import annotations

import pytest

from ..proxy.conversation import MIB
from .drawn import Rates, tree
from .judges import Allowance, worst_excess
from .scene import Fetch, Scene
from .shares import entities
from .sidecar import SidecarSpec

pytestmark = pytest.mark.timeout(300)  # of a busy machine
QUOTA = 4.0 * MIB


@pytest.mark.parametrize("seed", range(3))
def test_one_seed_gives_one_trace(seed: int) -> None:
    scene = tree(seed)
    assert scene.run(6).trace == scene.run(6).trace
    assert scene._replace(cuts=0.5, busy=0.1).run(6).trace == scene._replace(cuts=0.5, busy=0.1).run(6).trace


def test_another_seed_gives_another_trace() -> None:
    scene = tree(0)._replace(cuts=0.5)
    assert scene.run(3).trace != scene._replace(seed=99).run(3).trace


@pytest.mark.parametrize("version", [3, 5, 11, 12, 13, 17])
@pytest.mark.parametrize("one_way_ms", [0.5, 60])
def test_two_followers_of_one_leader_share_its_quota(version: int, one_way_ms: float) -> None:
    spec = SidecarSpec(Rates(leader=QUOTA).toml, egress=False)
    outcome = Scene({1: spec}, (Fetch(2, 1, version=version), Fetch(3, 1, one_way_ms=one_way_ms))).run(15)
    assert outcome.wrong == []
    assert min(each.ratio for each in entities(outcome)) >= 0.95
    burst, batches = 0.25 * QUOTA, 2 * 16_000
    assert worst_excess(outcome.ledger.departures, Allowance([(0.0, QUOTA)])) <= burst + batches


def test_without_a_sidecar_all_comes_at_once() -> None:
    """What bounds the others is the sidecar, not the world."""
    outcome = Scene({}, (Fetch(2, 1, backlog=40 * MIB, topics={"t": 4}),)).run(10)
    assert sum(each.size for each in outcome.ledger.arrivals) == pytest.approx(160 * MIB, rel=0.01)
    assert outcome.ledger.arrivals[-1].at < 1.0
    assert outcome.wrong == []


def test_what_is_in_sync_is_not_held_back() -> None:
    spec = SidecarSpec(Rates(leader=QUOTA).toml, egress=False)
    live = Fetch(3, 1, topics={}, live={"live": 4}, written=100_000, sizes=(1000,))
    outcome = Scene({1: spec}, (Fetch(2, 1), live)).run(10)
    assert outcome.wrong == []
    assert outcome.fetchers["3<1"].longest_wait <= 0.55
    in_sync = [each for each in outcome.ledger.arrivals if each.in_sync and each.at > 2]
    assert sum(each.size for each in in_sync) == pytest.approx(8 * 400_000, rel=0.03)


def test_cuts_and_turns_change_no_byte_and_no_share() -> None:
    spec = SidecarSpec(Rates(leader=QUOTA, follower=QUOTA).toml)
    fetches = (Fetch(2, 1, topics={"t": 300}), Fetch(3, 1, version=3), Fetch(2, 3, topics={"u": 3}))
    outcome = Scene(dict.fromkeys((1, 2, 3), spec), fetches, cuts=0.5, busy=0.2).run(10)
    assert outcome.wrong == []
    assert outcome.world.network.calls > 1000
    assert min(each.ratio for each in entities(outcome)) >= 0.95
