"""Goodput: bytes on the wire for each byte in a follower's log, whatever its batches."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ..proxy.conversation import MIB
from .drawn import Rates
from .ledger import worst_window
from .scene import Fetch, Outcome, Scene
from .sidecar import SidecarSpec

RATE = 4.0 * MIB
GATE = 0.1 * RATE
SECONDS = 10.0
MAX_WASTE = 1.05
pytestmark = pytest.mark.timeout(300)

Sizes = tuple[int, ...]
"""Of which the next batch of a partition is one, in an order that is drawn once."""
ALIKE: list[Sizes] = [(1000,), (15_000,), (60_000,), (110_000,), (200_000,)]
MIXED: list[Sizes] = [(58_000, 62_000, 59_400, 60_900), (1000, 15_000, 60_000, 200_000), (100, 50_000, 1077, 119_000)]


def moved(
    sizes: Sizes, partitions: int, *, follower_side: bool = False, version: int = 12, one_way_ms: float = 0.5
) -> Outcome:
    draw = random.Random(1)
    drawn = sizes if len(sizes) == 1 else tuple(draw.choice(sizes) for _ in range(97))
    rates = Rates(follower=RATE) if follower_side else Rates(leader=RATE)
    spec = SidecarSpec(rates.toml, ingress=not follower_side, egress=follower_side)
    fetch = Fetch(1, 0, {"t": partitions}, one_way_ms, version=version, sizes=drawn)
    outcome = Scene({1 if follower_side else 0: spec}, (fetch,)).run(SECONDS)
    assert outcome.wrong == []
    return outcome


def waste(outcome: Outcome) -> float:
    """Return bytes on the wire over bytes in the log."""
    (fetcher,) = outcome.fetchers.values()
    logs = ((fetcher.leader.log(key), offset) for key, offset in fetcher.wants.items())
    in_log = sum(log.border(offset // log.records) for log, offset in logs)
    return sum(each.size for each in outcome.ledger.arrivals) / in_log


def used(outcome: Outcome) -> float:
    """Return which part of the quota was used."""
    return sum(each.size for each in outcome.ledger.arrivals if each.at < SECONDS) / SECONDS / RATE


@pytest.mark.parametrize(("version", "follower_side"), [(3, False), (12, True), (17, False)])
@pytest.mark.parametrize("partitions", [1, 6])
@pytest.mark.parametrize("sizes", [*ALIKE, *MIXED], ids=str)
def test_little_comes_in_vain_and_the_quota_is_used(
    sizes: Sizes, partitions: int, version: int, follower_side: bool
) -> None:
    """Cut wherever the quota happened to end, 60 kB batches took 1.16 bytes for each in the log, and 200 kB ones beside
    small ones 1.35."""
    outcome = moved(sizes, partitions, version=version, follower_side=follower_side)
    assert waste(outcome) <= MAX_WASTE
    assert 0.94 <= used(outcome) <= 1.04
    assert worst_window(outcome.ledger.departures, 1.0) <= 1.25 * RATE


@pytest.mark.parametrize("partitions", [40, 300])
@pytest.mark.parametrize("sizes", [(15_000,), (60_000,), (200_000,)], ids=str)
def test_what_is_known_of_one_partition_is_supposed_of_the_others(sizes: Sizes, partitions: int) -> None:
    """Most of these partitions are granted something for the first time."""
    assert waste(moved(sizes, partitions)) <= 1.07


@pytest.mark.parametrize("sizes", [(250_000,), (400_000,), (1_000_000,)], ids=str)
def test_a_batch_that_is_more_than_half_a_gate_comes_whole(sizes: Sizes) -> None:
    """Of 250 kB batches 1.68 bytes crossed the wire for each in the log."""
    assert waste(moved(sizes, 4)) <= MAX_WASTE


@pytest.mark.parametrize("one_way_ms", [20, 120])
@pytest.mark.parametrize("sizes", [(60_000,), (1000, 15_000, 60_000)], ids=str)
def test_a_follower_that_is_far_away_has_all_of_the_quota(sizes: Sizes, one_way_ms: float) -> None:
    """One batch in each round trip of 240 ms would be a twentieth of it: what would be lost is granted as a guess.
    Less than a batch of what the bucket holds is lost in each."""
    outcome = moved(sizes, 4, one_way_ms=one_way_ms)
    assert used(outcome) >= 0.9
    assert worst_window(outcome.ledger.departures, 1.0) <= 1.25 * RATE
    assert waste(outcome) <= 1.10


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    sizes=st.lists(st.integers(100, int(GATE / 2)), min_size=1, max_size=4).map(tuple),
    partitions=st.integers(1, 6),
    follower_side=st.booleans(),
)
@example(sizes=(1000, 1000, 1000, 1000, 1000, 200_000), partitions=1, follower_side=False)
def test_whatever_batches_are_little_comes_in_vain(sizes: Sizes, partitions: int, follower_side: bool) -> None:
    outcome = moved(sizes, partitions, follower_side=follower_side)
    assert waste(outcome) <= 1.07, "the first grants included, which were for nothing that was known"
    assert used(outcome) >= 0.93
