"""Both ends of a link throttle: what one side leaves out or shortens, the other must not take for something else.

The link of most clusters: some partitions catch up, others are in sync and nobody writes to them. A fetch that asks for
the latter is never held, so how often the two sides ask is up to their arithmetic alone.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.proxy.conversation import MIB
from tests.proxy.series_conversation import HOP_SECONDS, Series
from tests.proxy.session_conversation import MESSAGE_BYTES, SessionLeader, topic_of

if TYPE_CHECKING:
    from collections.abc import Callable

END = 100_000
CATCHING_UP = 8
SECONDS = 6.0
FETCHES_PER_SECOND = 25
"""The bound of a throttled link with nothing else on it."""


def series(
    version: int,
    egress_rate: float,
    ingress_rate: float,
    *,
    in_sync: int = 1,
    slots: int = 1000,
    hop: Callable[[], float] | None = None,
) -> Series:
    keys = [(topic_of(version), partition) for partition in range(CATCHING_UP + in_sync)]
    wants = {key: 0 if key[1] < CATCHING_UP else END for key in keys}
    leader = SessionLeader(dict.fromkeys(keys, END), slots=slots)
    return Series(wants, leader, version, egress_rate, ingress_rate, hop=hop or (lambda: HOP_SECONDS))


def worst_second(moved: Series) -> int:
    return max(sum(b.size for b in moved.arrivals if a.at <= b.at < a.at + 1) for a in moved.arrivals)


@pytest.mark.parametrize("in_sync", [0, 1])
@pytest.mark.parametrize(
    ("egress_rate", "ingress_rate"), [(4 * MIB, 4 * MIB), (4 * MIB, 16 * MIB), (16 * MIB, 4 * MIB), (4 * MIB, 3 * MIB)]
)
@pytest.mark.parametrize("version", [3, 5, 7, 12, 17])
def test_the_smaller_quota_holds_with_few_fetches(
    version: int, egress_rate: float, ingress_rate: float, in_sync: int
) -> None:
    """v3 to v6 made 140 to 500 fetches a second of it: what the follower's side leaves out comes back a stranger."""
    quota = min(egress_rate, ingress_rate)
    moved = series(version, egress_rate, ingress_rate, in_sync=in_sync)
    moved.run(until=SECONDS)
    assert len(moved.fetches) / SECONDS <= FETCHES_PER_SECOND
    assert worst_second(moved) <= 1.3 * quota
    assert sum(arrival.size for arrival in moved.arrivals) == pytest.approx(quota * SECONDS, rel=0.04)


@pytest.mark.parametrize("version", [5, 12])
def test_on_a_busy_machine_too(version: int) -> None:
    """Hops of up to 12 ms, the same on either side of the middle."""
    chance = random.Random(version)
    moved = series(version, 16 * MIB, 4 * MIB, hop=lambda: chance.uniform(0.0003, 0.012))
    moved.run(until=SECONDS)
    assert len(moved.fetches) / SECONDS <= FETCHES_PER_SECOND
    assert sum(arrival.size for arrival in moved.arrivals) == pytest.approx(4 * MIB * SECONDS, rel=0.04)


@pytest.mark.parametrize("version", [7, 12, 17])
def test_without_room_for_sessions_too(version: int) -> None:
    """Every request is a full one, as at v3 to v6."""
    moved = series(version, 4 * MIB, 2 * MIB, slots=0)
    moved.run(until=SECONDS)
    assert len(moved.fetches) / SECONDS <= FETCHES_PER_SECOND
    assert worst_second(moved) <= 1.3 * 2 * MIB
    assert sum(arrival.size for arrival in moved.arrivals) == pytest.approx(2 * MIB * SECONDS, rel=0.04)


@pytest.mark.parametrize("version", [3, 5, 7, 12, 17])
def test_a_leaders_side_that_allows_nothing_gives_nothing(version: int) -> None:
    """Before, each partition that came back brought a batch: as much as the follower's own quota allows."""
    moved = series(version, 4 * MIB, 0)
    moved.run(until=SECONDS)
    assert sum(arrival.size for arrival in moved.arrivals) == MESSAGE_BYTES  # first contact
    assert len(moved.fetches) / SECONDS <= FETCHES_PER_SECOND
    assert moved.behind == CATCHING_UP


@pytest.mark.parametrize("version", [5, 12])
def test_first_contact_is_not_taken_for_live_traffic(version: int) -> None:
    """Probes come back at once because there is something, not because somebody writes."""
    moved = series(version, 4 * MIB, 4 * MIB, in_sync=1)
    moved.run(until=1.0)
    assert [size for _, key, size in moved.arrivals if key[1] < CATCHING_UP][3] > 0.2 * MIB


@pytest.mark.parametrize("version", [3, 12])
def test_what_is_written_to_a_partition_in_sync_passes_at_once(version: int) -> None:
    """One message every 20 ms; it waits for no gate."""
    moved = series(version, 16 * MIB, 4 * MIB)
    live = (topic_of(version), CATCHING_UP)

    def write(now: float) -> None:
        moved.leader.ends[live] = END + int(now / 0.02)

    moved.run(until=SECONDS, beside=write)
    times = [arrival.at for arrival in moved.arrivals if arrival.key == live]
    assert max(later - earlier for earlier, later in pairwise(times)) <= 0.13
