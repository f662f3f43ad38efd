"""Clusters in virtual time: the quota in every window, all of it used, fair shares, nobody starved.

A case that fails is printed as the smallest that does. `make simulation` draws many more, and larger ones; SEED=7 draws
the same again.
"""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import HealthCheck, given, settings

from proxy.quotas.rules import Quotas, RoleQuota

from ..proxy.conversation import MIB, throttle
from .cases import QUOTA, Case, Follower, cases
from .figures import jain, longest_silence, worst_window
from .world import Connection, World

SECONDS = 16.0
SETTLED_SECONDS = 4.0
"""Who began, began by then; first contact, and the first guesses of who is away how long, are over."""
FAIR = 0.98
pytestmark = pytest.mark.timeout(300)  # of a busy machine: CPU alone is a few seconds
SLOW = [pytest.mark.simulation, pytest.mark.timeout(1200)]


def assert_bounded(served: list[Connection], quota: float) -> None:
    """Where a leader's bytes leave its host: any second at most 1.25 times of the quota, and any 11 at most 1.05; and
    what is granted at least, however low the quota: 64 KiB."""
    departures = list(itertools.chain.from_iterable(each.departures for each in served))
    live = sum(len(each.live) for each in served)
    for seconds, most in ((1.0, 1.25), (11.0, 1.05)):
        in_sync = live * seconds / 0.02 * 1000
        found = worst_window(departures, seconds)
        assert found <= most * quota * seconds + in_sync + 64 * 1024, (seconds, found / quota / seconds)


def shares(served: list[Connection]) -> list[float]:
    """Bytes per second of those that catch up, since all have settled."""
    return [each.bytes_between(SETTLED_SECONDS, SECONDS) / (SECONDS - SETTLED_SECONDS) for each in served]


@pytest.mark.parametrize("version", [3, 12, 17])
@pytest.mark.parametrize("follower_rate", [None, QUOTA])
@pytest.mark.parametrize("hop_ms", [0.5, 20, 45, 120])
def test_a_follower_that_is_far_away_has_its_share(hop_ms: float, follower_rate: float | None, version: int) -> None:
    """120 ms one way was 1.34 of 4 MiB/s: one grant of 100 ms of the quota in each round trip of 240 and its wait."""
    case = Case((Follower(0.5), Follower(hop_ms)), version=version, follower_rate=follower_rate)
    served = case.run(SECONDS)
    assert jain(shares(served)) >= FAIR, shares(served)
    assert sum(shares(served)) >= 0.97 * QUOTA
    assert_bounded(served, QUOTA)


@pytest.mark.parametrize("live_ms", [20, 100, 500])
@pytest.mark.parametrize("hop_ms", [0.5, 45, 120])
def test_a_follower_that_cannot_wait_has_its_share(hop_ms: float, live_ms: int) -> None:
    """Beside replicas in sync a fetch goes on at once. One that was back after more than 100 ms never met an open gate,
    because who waits takes each as it opens: 0.07 of 4 MiB/s."""
    served = Case((Follower(0.5), Follower(hop_ms, live_ms=live_ms))).run(SECONDS)
    assert jain(shares(served)) >= FAIR, shares(served)
    assert sum(shares(served)) >= 0.95 * QUOTA
    assert_bounded(served, QUOTA)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("live_ms", [(None, 20), (20, 20), (500, 500)])
def test_nobody_starves_beside_another_whose_machine_is_busy(live_ms: tuple[int | None, int], seed: int) -> None:
    """Both sides throttle, both have replicas in sync, one follower comes back late as often as not. It had 0.26 to
    0.6 of 4 MiB/s, and on real brokers once 11 MB while the other had 46.6."""
    quick, busy = live_ms
    late = Follower(1, jitter_ms=160, live_ms=busy, seed=seed)
    served = Case((Follower(0.5, 3, live_ms=quick, seed=seed), late), follower_rate=QUOTA).run(SECONDS)
    assert min(shares(served)) >= 0.3 * QUOTA, shares(served)
    assert sum(shares(served)) >= 0.9 * QUOTA
    assert_bounded(served, QUOTA)


def test_two_leaders_of_one_follower_have_equal_shares_of_its_quota() -> None:
    world = World((1, 2, 3), leader_rate=None, follower_rate=QUOTA)
    near = world.connect(1, 2, [("near", p) for p in range(8)])
    far = world.connect(1, 3, [("far", p) for p in range(8)], hop=0.12)
    world.run(SECONDS)
    assert jain(shares([near, far])) >= FAIR
    assert sum(shares([near, far])) >= 0.97 * QUOTA
    assert worst_window(near.arrivals + far.arrivals, 1.0) <= 1.25 * QUOTA


@pytest.mark.parametrize(("slow_rate", "count", "live_seconds", "least"), [
    (0, 1, 0.02, 0.95), (0, 3, 0.1, 0.9), (0, 3, 0.02, 0.9), (QUOTA / 20, 3, 0.02, 0.35),
    (QUOTA / 20, 3, math.inf, 0.8),
])  # fmt: skip
def test_leaders_that_bring_little_leave_the_followers_quota_to_the_others(
    slow_rate: float, count: int, live_seconds: float, least: float
) -> None:
    """Their own sidecars allow nothing or little, and what producers write to partitions in sync has their answers come
    at once. So they had all of the follower's budget in their hands all the time: the leader that had bytes sent 0.0 of
    4 MiB/s beside one at quota 0, 0.1 beside three at a twentieth."""
    world = World(range(3 + count), leader_rate=None, follower_rate=QUOTA)
    fast = world.connect(0, 1, [("fast", p) for p in range(8)])
    slow = []
    for leader in range(2, 2 + count):
        world.brokers[leader].ingress = throttle(slow_rate)
        live = [(f"live{leader}", 0)] if live_seconds < math.inf else []
        behind = [(f"slow{leader}", p) for p in range(8)]
        slow.append(world.connect(0, leader, behind, live=live, live_seconds=live_seconds))
    world.run(SECONDS)
    assert shares([fast])[0] >= least * QUOTA
    assert worst_window(itertools.chain.from_iterable(each.arrivals for each in (fast, *slow)), 1.0) <= 1.25 * QUOTA
    for leader in range(2, 2 + count):
        lifted = world.brokers[leader].ingress
        assert lifted is not None
        lifted.apply(Quotas(leader=RoleQuota.of_every_topic(math.inf)), world.now)
    world.run(SECONDS + 6)
    for each in slow:
        assert each.bytes_between(SECONDS + 3, SECONDS + 6) / 3 >= 0.6 * QUOTA / (count + 1), "no rest is for ever"


def any_cluster(case: Case) -> None:
    """Who has no sidecar of its own in between has a fair share of its leader's quota, whoever else there is."""
    served, quota = case.run(SECONDS), case.leader_rate or 0.0
    assert_bounded(served, quota)
    found = shares(served)
    in_sync = sum(each.in_sync_bytes_between(SETTLED_SECONDS, SECONDS) for each in served) / (SECONDS - SETTLED_SECONDS)
    assert sum(found) + in_sync >= 0.85 * quota, (found, in_sync)
    assert min(found) >= 0.6 * quota / len(served), found
    assert jain(found) >= 0.95, found
    for each in served:
        assert each.errors == 0


@pytest.mark.parametrize(
    "case",
    [
        Case((Follower(1, live_ms=20), Follower(50, live_ms=100), Follower(50))),
        Case((Follower(1, 4, live_ms=100), Follower(53, 3, partitions=12, live_ms=100)), version=11, leader_rate=MIB),
        # Half a gate in each round trip was all that they had, 0.71 of the quota.
        Case(
            (Follower(65.6, partitions=11, live_ms=100), Follower(65.6, partitions=11, live_ms=100)),
            leader_rate=20 * MIB,
        ),
        # What producers write here is more than half of a follower's part, and it begins behind: never in sync, it
        # counts among what catches up.
        Case((Follower(1, partitions=1, live_ms=20, begins_ms=60), Follower(1, partitions=1)), leader_rate=150_000),
    ],
    ids=str,
)
def test_some_clusters(case: Case) -> None:
    any_cluster(case)


@pytest.mark.simulation
@pytest.mark.timeout(3600)
@given(cases(most=12, most_ms=100))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
def test_many_clusters(case: Case) -> None:
    any_cluster(case)


@pytest.mark.parametrize(("count", "seed"), [(8, 0), *(pytest.param(200, seed, marks=SLOW) for seed in range(3))])
def test_brokers_that_all_catch_up_from_each_other(count: int, seed: int) -> None:
    """Each is behind at six leaders with some partitions of each, a thousand and more in all."""
    choice = random.Random(seed)
    brokers = range(count)
    world = World(brokers, leader_rate=QUOTA, follower_rate=None)
    for follower in brokers:
        for leader in choice.sample([each for each in brokers if each != follower], 6):
            keys = [(f"t{follower}-{leader}", p) for p in range(choice.randrange(1, 6))]
            world.connect(follower, leader, keys, hop=choice.uniform(0.0002, 0.01))
    world.run(SECONDS)
    for leader in brokers:
        served = [each for each in world.connections if each.leader == leader]
        if not served:
            continue
        assert_bounded(served, QUOTA)
        assert jain(shares(served)) >= FAIR, (leader, shares(served))
        assert 0.95 * QUOTA <= sum(shares(served)) <= 1.05 * QUOTA
        partitions = sum(len(each.wants) for each in served)
        for each in served:
            assert longest_silence(each, 0, SECONDS) <= 1.0 + 2 * partitions * MIB / QUOTA
            assert each.errors == 0


def test_who_catches_up_leaves_all_of_the_quota_to_the_others() -> None:
    """Convergence: all end, the last when bytes over quota says, though each had less than the other at some time."""
    world = World((0, 1, 2, 3), leader_rate=QUOTA, follower_rate=QUOTA)
    for follower, messages in ((1, 4_000), (2, 12_000), (3, 24_000)):
        world.connect(follower, 0, [(f"t{follower}", 0)], messages=messages, hop=0.02 * follower)
    world.run(60)
    total = sum(each.size for made in world.connections for each in made.arrivals)
    last = max(made.arrivals[-1].at for made in world.connections)
    assert total == 40_000 * 1000
    assert last == pytest.approx(total / QUOTA, rel=0.05)
    assert_bounded(world.connections, QUOTA)
