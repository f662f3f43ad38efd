"""Goodput in virtual time: bytes on the wire for each byte in a follower's log, whatever its batches."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ..proxy.conversation import MIB
from ..proxy.session_conversation import topic_of
from .batches import BatchLeader
from .figures import worst_window
from .world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.session.requests import PartitionKey

    from .world import Connection

RATE = 4 * MIB
GATE = 0.1 * RATE
SECONDS = 12.0
MAX_WASTE = 1.05
pytestmark = pytest.mark.timeout(300)  # of a busy machine: CPU alone is a few seconds

Sizes = tuple[int, ...]
"""Of which the next batch of a partition is one, drawn at random."""
ALIKE: list[Sizes] = [(1000,), (15_000,), (60_000,), (62_000,), (110_000,), (150_000,), (200_000,)]
COMPRESSED: list[Sizes] = [tuple(range(58_000, 62_000, 7)), tuple(range(13_000, 17_000, 7))]
MIXED: list[Sizes] = [(1000, 15_000, 60_000), (1000, 15_000, 60_000, 200_000), tuple(range(100, 120_000, 977))]


def draws(sizes: Sizes) -> Callable[[PartitionKey], int]:
    draw = random.Random(1)
    return lambda _: draw.choice(sizes)


def moved(
    sizes: Sizes,
    partitions: int,
    *,
    rate: float = RATE,
    follower_side: bool = False,
    version: int = 12,
    hop: float = 5e-4,
) -> tuple[BatchLeader, Connection]:
    """What came of a follower that is behind at one leader for `SECONDS`."""
    world = World(
        (0, 1),
        leader_rate=None if follower_side else rate,
        follower_rate=rate if follower_side else None,
        version=version,
        leads=lambda: BatchLeader(next_size=draws(sizes)),
    )
    made = world.connect(1, 0, [(topic_of(version), partition) for partition in range(partitions)], hop=hop)
    world.run(SECONDS)
    leader = world.brokers[0].leads
    assert isinstance(leader, BatchLeader)
    return leader, made


def waste(leader: BatchLeader, made: Connection) -> float:
    """Bytes on the wire over bytes in the log."""
    in_log = sum(leader.border(key, offset) for key, offset in made.wants.items())
    return sum(each.size for each in made.arrivals) / in_log


@pytest.mark.parametrize(("version", "follower_side"), [(3, False), (12, True), (17, False)])
@pytest.mark.parametrize("partitions", [1, 6])
@pytest.mark.parametrize("sizes", [*ALIKE, *COMPRESSED, *MIXED], ids=lambda sizes: f"{sizes[0]}-{sizes[-1]}")
def test_little_comes_in_vain_and_the_quota_is_used(
    sizes: Sizes, partitions: int, version: int, follower_side: bool
) -> None:
    """Cut wherever the quota happened to end, 60 kB batches took 1.16 bytes for each in the log, and 200 kB ones beside
    small ones 1.35."""
    leader, made = moved(sizes, partitions, version=version, follower_side=follower_side)
    assert waste(leader, made) <= MAX_WASTE
    assert 0.95 <= sum(each.size for each in made.arrivals) / SECONDS / RATE <= 1.03
    assert worst_window(made.departures, 1.0) <= 1.25 * RATE
    assert made.errors == 0


@pytest.mark.parametrize("partitions", [40, 300])
@pytest.mark.parametrize("sizes", ALIKE[1:], ids=str)
def test_what_is_known_of_one_partition_is_supposed_of_the_others(sizes: Sizes, partitions: int) -> None:
    """Most of these partitions are granted something for the first time."""
    assert waste(*moved(sizes, partitions)) <= MAX_WASTE


@pytest.mark.parametrize("sizes", [(250_000,), (400_000,), (1_000_000,)], ids=str)
def test_a_batch_that_is_more_than_half_a_gate_comes_whole(sizes: Sizes) -> None:
    """Of 250 kB batches 1.68 bytes crossed the wire for each in the log."""
    assert waste(*moved(sizes, 4)) <= MAX_WASTE


@pytest.mark.parametrize("hop", [0.02, 0.06, 0.12])
@pytest.mark.parametrize("sizes", [(60_000,), MIXED[0]], ids=str)
def test_a_follower_that_is_far_away_has_all_of_the_quota(sizes: Sizes, hop: float) -> None:
    """One batch in each round trip of 240 ms would be a twentieth of it: what would be lost is granted as a guess.
    Less than a batch of what the bucket holds is lost in each."""
    leader, made = moved(sizes, 4, hop=hop)
    assert sum(each.size for each in made.arrivals) / SECONDS / RATE >= 0.93
    assert worst_window(made.departures, 1.0) <= 1.25 * RATE
    assert waste(leader, made) <= 1.10


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    sizes=st.lists(st.integers(100, int(GATE / 2)), min_size=1, max_size=4).map(tuple),
    partitions=st.integers(1, 6),
    follower_side=st.booleans(),
)
@example(sizes=(1000, 1000, 1000, 1000, 1000, 200_000), partitions=1, follower_side=False)
def test_whatever_batches_are_little_comes_in_vain(sizes: Sizes, partitions: int, follower_side: bool) -> None:
    leader, made = moved(sizes, partitions, follower_side=follower_side)
    assert waste(leader, made) <= 1.06, "the first grants included, which were for nothing that was known"
    assert sum(each.size for each in made.arrivals) / SECONDS / RATE >= 0.95
    assert worst_window(itertools.chain(made.departures), 1.0) <= 1.25 * RATE
