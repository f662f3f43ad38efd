"""Connections of one role: the quota in every window, all of it used, fair shares, nobody starved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ..proxy.conversation import MIB
from .drawn import Rates
from .ledger import worst_window
from .scene import Act, Fetch, Outcome, Scene
from .sidecar import SidecarSpec

if TYPE_CHECKING:
    from .scene import World

QUOTA = 4.0 * MIB
SECONDS = 16.0
SETTLED = 4.0
"""First contact, and the first guesses of who is away how long, are over."""
FAIR = 0.98
pytestmark = pytest.mark.timeout(300)  # of a busy machine: CPU alone is a few seconds


def served(
    *fetches: Fetch, leader_rate: float | None = QUOTA, follower_rate: float | None = None, seconds: float = SECONDS
) -> Outcome:
    """Run one leader, 0, which throttles; its followers throttle by themselves if there is a `follower_rate`."""
    own = {each.follower: SidecarSpec(Rates(follower=follower_rate).toml, ingress=False) for each in fetches}
    leader = {} if leader_rate is None else {0: SidecarSpec(Rates(leader=leader_rate).toml, egress=False)}
    scene = Scene({**leader, **({} if follower_rate is None else own)}, fetches)
    outcome = scene.run(seconds)
    assert outcome.wrong == []
    assert outcome.world.left == []
    return outcome


def shares(outcome: Outcome) -> list[float]:
    """Return bytes per second of those that catch up, since all have settled."""
    found = outcome.rates(SETTLED)
    return [found.get(name, 0.0) for name in outcome.fetchers]


def jain(found: list[float]) -> float:
    """Return the index of fairness: 1 if all are equal, 1/n if one of n has everything."""
    squares = sum(each * each for each in found)
    return sum(found) ** 2 / (len(found) * squares) if squares else 0.0


def assert_bounded(outcome: Outcome, quota: float, *, a_second: float = 1.25) -> None:
    """Where a leader's bytes leave its host: any second at most 1.25 times of the quota, any 11 at most 1.05."""
    behind = [each for each in outcome.ledger.departures if not each.in_sync]
    for seconds, most in ((1.0, a_second), (11.0, 1.05)):
        assert worst_window(behind, seconds) <= most * quota * seconds + 64 * 1024, seconds


def live(milliseconds: float | None) -> dict[str, Any]:
    """Return the fields of a follower with a partition in sync, to which a kilobyte is written now and then."""
    return {} if milliseconds is None else {"live": {"live": 1}, "written": 1000 / milliseconds * 1000}


@pytest.mark.parametrize("version", [3, 12, 17])
@pytest.mark.parametrize("follower_rate", [None, QUOTA])
@pytest.mark.parametrize("one_way_ms", [0.5, 45, 120])
def test_a_follower_that_is_far_away_has_its_share(
    one_way_ms: float, follower_rate: float | None, version: int
) -> None:
    """120 ms one way was 1.34 of 4 MiB/s: one grant of 100 ms of the quota in each round trip of 240 and its wait."""
    far = Fetch(2, 0, one_way_ms=one_way_ms, version=version)
    outcome = served(Fetch(1, 0, version=version), far, follower_rate=follower_rate)
    assert jain(shares(outcome)) >= FAIR, shares(outcome)
    assert sum(shares(outcome)) >= 0.96 * QUOTA
    assert_bounded(outcome, QUOTA)


@pytest.mark.parametrize("live_ms", [20, 500])
@pytest.mark.parametrize("one_way_ms", [0.5, 45, 120])
def test_a_follower_that_cannot_wait_has_its_share(one_way_ms: float, live_ms: float) -> None:
    """Beside replicas in sync a fetch goes on at once. One that was back after more than 100 ms never met an open gate,
    because who waits takes each as it opens: 0.07 of 4 MiB/s."""
    outcome = served(Fetch(1, 0), Fetch(2, 0, first=50, one_way_ms=one_way_ms, **live(live_ms)))
    assert jain(shares(outcome)) >= FAIR, shares(outcome)
    assert sum(shares(outcome)) >= 0.93 * QUOTA
    assert_bounded(outcome, QUOTA)


@pytest.mark.parametrize("live_ms", [(None, 20), (20, 20), (500, 500)])
def test_nobody_starves_beside_another_whose_machine_is_busy(live_ms: tuple[float | None, float]) -> None:
    """Both sides throttle, both have replicas in sync, one follower comes back late as often as not. It had 0.26 to
    0.6 of 4 MiB/s, and on real brokers once 11 MB while the other had 46.6."""
    quick = Fetch(1, 0, jitter_ms=3, **live(live_ms[0]))
    busy = Fetch(2, 0, first=50, one_way_ms=1, jitter_ms=160, **live(live_ms[1]))
    outcome = served(quick, busy, follower_rate=QUOTA)
    assert min(shares(outcome)) >= 0.3 * QUOTA, shares(outcome)
    assert sum(shares(outcome)) >= 0.88 * QUOTA
    assert_bounded(outcome, QUOTA)


def test_two_leaders_of_one_follower_have_equal_shares_of_its_quota() -> None:
    outcome = served(Fetch(1, 2), Fetch(1, 3, one_way_ms=120), leader_rate=None, follower_rate=QUOTA)
    assert jain(shares(outcome)) >= FAIR
    assert sum(shares(outcome)) >= 0.96 * QUOTA
    assert worst_window(outcome.ledger.arrivals, 1.0) <= 1.25 * QUOTA


@pytest.mark.parametrize(("slow_rate", "count", "live_ms", "least"), [
    (0.0, 1, 20, 0.95), (0.0, 3, 20, 0.9), (QUOTA / 20, 3, 20, 0.25), (QUOTA / 20, 3, None, 0.75),
])  # fmt: skip
def test_leaders_that_bring_little_leave_the_followers_quota_to_the_others(
    slow_rate: float, count: int, live_ms: float | None, least: float
) -> None:
    """Their own sidecars allow nothing or little, and what producers write to partitions in sync has their answers come
    at once. So they had all of the follower's budget in their hands all the time: the leader that had bytes sent 0.0 of
    4 MiB/s beside one at quota 0, 0.1 beside three at a twentieth."""
    slow = range(2, 2 + count)
    sidecars = {0: SidecarSpec(Rates(follower=QUOTA).toml, ingress=False)}
    sidecars.update({each: SidecarSpec(Rates(leader=slow_rate).toml, egress=False) for each in slow})
    of_slow = (Fetch(0, each, first=10 * each, **live(live_ms)) for each in slow)
    lifted = "".join(f"[brokers.{each}]\nleader.replication.throttled.rate = 10000000000\n" for each in slow)

    def lift(world: World) -> None:
        for each in slow:
            world.sidecars[each].change(sidecars[each].quotas + lifted)

    scene = Scene(sidecars, (Fetch(0, 1), *of_slow), acts=(Act(SECONDS, "lifted", lift),))
    outcome = scene.run(SECONDS + 6)
    assert outcome.wrong == []
    assert outcome.rates(SETTLED, end=SECONDS)["0<1"] >= least * QUOTA
    before = [each for each in outcome.ledger.arrivals if each.at < SECONDS]
    assert worst_window(before, 1.0) <= 1.25 * QUOTA + (1 + count) * 16_000  # a batch of each connection
    after = outcome.rates(SECONDS + 3)
    for each in slow:
        assert after[f"0<{each}"] >= 0.6 * QUOTA / (count + 1), "no rest is for ever"


@pytest.mark.parametrize(
    ("fetches", "rate"),
    [
        (
            (Fetch(1, 0, **live(20)), Fetch(2, 0, first=50, one_way_ms=50, **live(100)), Fetch(3, 0, one_way_ms=50)),
            QUOTA,
        ),
        # Half a gate in each round trip was all that they had, 0.71 of the quota.
        (tuple(Fetch(n, 0, {"t": 11}, 65.6, first=50 * n, **live(100)) for n in (1, 2)), 20.0 * MIB),
    ],
    ids=["three", "two far away"],
)
def test_some_clusters(fetches: tuple[Fetch, ...], rate: float) -> None:
    outcome = served(*fetches, leader_rate=rate, seconds=12.0)
    found = shares(outcome)
    assert_bounded(outcome, rate, a_second=1.35)
    assert sum(found) >= 0.85 * rate
    assert jain(found) >= 0.95, found


def test_who_catches_up_leaves_all_of_the_quota_to_the_others() -> None:
    """All end, the last when bytes over quota says, though each had less than another at some time."""
    sizes = {1: 4.0, 2: 12.0, 3: 24.0}
    fetches = (Fetch(n, 0, {f"t{n}": 1}, 20 * n, backlog=size * MIB) for n, size in sizes.items())
    outcome = served(*fetches, follower_rate=QUOTA, seconds=20.0)
    total = sum(each.size for each in outcome.ledger.arrivals)
    assert total == pytest.approx(sum(sizes.values()) * MIB, rel=0.02)
    assert outcome.ledger.arrivals[-1].at == pytest.approx(total / QUOTA, rel=0.06)
    assert_bounded(outcome, QUOTA)


def test_brokers_that_all_catch_up_from_each_other() -> None:
    """Each is behind at each other; every leader's quota is used, and shared alike."""
    brokers = range(5)
    spec = SidecarSpec(Rates(leader=QUOTA / 2).toml, egress=False)
    fetches = tuple(
        Fetch(one, two, {"t": 1 + (one + two) % 4}, 0.2 + one, first=10 * one)
        for one in brokers
        for two in brokers
        if one != two
    )
    outcome = Scene(dict.fromkeys(brokers, spec), fetches).run(SECONDS)
    assert outcome.wrong == []
    for leader in brokers:
        rates = outcome.rates(SETTLED, lambda each: (each.leader, each.follower))
        found = [rate for (of, _), rate in rates.items() if of == leader]
        assert len(found) == len(brokers) - 1
        assert jain(found) >= 0.97
        assert sum(found) == pytest.approx(QUOTA / 2, rel=0.05)
    assert max(max(each.longest_silence.values()) for each in outcome.fetchers.values()) <= 6.0
