"""Events of the month: which replicas fall behind, when, and by how much.

Pure: numbers from a seed, values out. By night partitions are moved, by day brokers restart one after the other, one
broker is replaced, one link is starved, and some producers write beside it. Invariant: the same seed is the same month.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_BROKER = 101
START = 1_748_736_000
"""2025-06-01T00:00:00Z, long ago: lines from the future would be set aside when they are read."""
DAY, HOUR, MINUTE = 86_400, 3600, 60
MIB = 1 << 20
GB = 1_000_000_000
NIGHT_BEGINS, NIGHT_RISES, NIGHT_ENDS = 1 * HOUR, 2 * HOUR, 6 * HOUR
RESTARTS = 10 * HOUR
DOWN_SECONDS = 8 * MINUTE
MOVES_A_NIGHT, PARTITIONS_A_MOVE = 16, 12
RESTARTS_A_DAY = 3
REPLACED_FROM, PARTITIONS_FROM_EACH = 6, 10
IN_SYNC_SECONDS = 60
"""The time for which a replica that has caught up is still told of, as in sync: such traffic passes beside the
moves."""


@dataclass(slots=True)
class Replica:
    """A partition on the broker that fetches it. Offsets are messages."""

    topic: str
    partition: int
    message_bytes: int
    written: int
    """Messages a second, by producers."""
    offset: int
    high_watermark: int
    known: int = -1
    """The high watermark that it was told last; -1: none yet, so that its first answer counts as in sync."""
    moved_bytes: int = 0
    in_sync_since: int | None = None


@dataclass(slots=True)
class Outage:
    source: int
    destination: int
    begins: int
    """Second of the month."""
    replicas: list[Replica]
    restarts: bool = False
    """True if its destination was away, sidecar and all, and comes back now."""
    starved: tuple[int, int] = (0, 0)
    """The seconds of the month from which and until which it gets nothing."""
    violates_at: int = -1
    """The second in which much more than its share passes; -1: in none."""
    turn: int = 0
    ended: int | None = None
    waiting: list[Replica] = field(default_factory=list)


class Month(NamedTuple):
    """brokers: nine at least. scale: from 0.2 on all happens that `truth.json` tells of."""

    brokers: int = 100
    days: int = 30
    scale: float = 1.0
    """The size of partitions: 1 is some six gigabytes each."""
    seed: int = 73

    @property
    def ids(self) -> range:
        return range(FIRST_BROKER, FIRST_BROKER + self.brokers)

    @property
    def replaced(self) -> tuple[int, int]:
        """The broker that leaves, and the one in its place."""
        return self.ids[self.brokers // 3], self.ids[-1] + 1

    @property
    def replaced_on(self) -> int:
        return self.days // 2

    @property
    def odd_night(self) -> int:
        """The night in which a link is starved, and another one gets twice its quota for a second."""
        return self.days * 2 // 3

    def alive(self, day: int) -> list[int]:
        """Return the brokers of that day's night and morning."""
        gone, new = self.replaced
        return [*self.ids] if day <= self.replaced_on else [*(one for one in self.ids if one != gone), new]

    def skew(self, broker: int) -> int:
        """Return the seconds by which a broker's clock is wrong: few by many, most by none."""
        return {0: 45, 1: -20, 2: 3}.get((broker - FIRST_BROKER) % 25, 0)

    def quota(self, second: int) -> int:
        """Return every broker's quota, in bytes a second, as leader and as follower: higher at night."""
        return (80 if NIGHT_RISES <= second % DAY < NIGHT_ENDS else 50) * MIB


def outages(month: Month) -> list[Outage]:
    """Return all outages in the order in which they begin."""
    numbers = random.Random(month.seed)
    found: list[Outage] = []
    for day in range(month.days):
        found += _night(month, day, numbers)
        found += _restarts(month, day, numbers)
        if day == month.replaced_on:
            found += _replacement(month, day, numbers)
    return sorted(found, key=lambda one: (one.begins, one.source, one.destination))


def _night(month: Month, day: int, numbers: random.Random) -> Iterator[Outage]:
    """Yield moves of partitions, from each source to two destinations."""
    begins = day * DAY + NIGHT_BEGINS
    ids = numbers.sample(month.alive(day), min(3 * MOVES_A_NIGHT // 2, month.brokers // 3 * 3))
    for first in range(0, len(ids), 3):
        source, *destinations = ids[first : first + 3]
        for destination in destinations:
            replicas = [
                _replica(numbers, f"moved-{day:02}-{source}-{destination}", partition, _bytes(month, numbers))
                for partition in range(PARTITIONS_A_MOVE)
            ]
            outage = Outage(source, destination, begins + numbers.randrange(20 * MINUTE), replicas)
            if day == month.odd_night and first == 0:
                outage.begins = begins  # both of them, so that who is starved has a neighbour who is not
                if destination == destinations[0]:
                    outage.starved = (begins + MINUTE, begins + 7 * MINUTE)
            if day == month.odd_night and first == 3 and destination == destinations[0]:
                outage.violates_at = outage.begins + 100
            yield outage


def _restarts(month: Month, day: int, numbers: random.Random) -> Iterator[Outage]:
    """Yield brokers' absences, after which each is behind by what was written meanwhile."""
    for number, broker in enumerate(numbers.sample(month.alive(day), min(RESTARTS_A_DAY, month.brokers // 3))):
        back = day * DAY + RESTARTS + number * 15 * MINUTE + DOWN_SECONDS
        for source in numbers.sample([one for one in month.alive(day) if one != broker], 2):
            replicas = []
            for partition in range(10):
                one = _replica(numbers, f"orders-{source}-{broker}", partition, 1)
                one.written *= 10
                one.high_watermark = one.offset + one.written * DOWN_SECONDS
                replicas.append(one)
            yield Outage(source, broker, back, replicas, restarts=True)


def _replacement(month: Month, day: int, numbers: random.Random) -> Iterator[Outage]:
    gone, new = month.replaced
    for source in numbers.sample([one for one in month.ids if one != gone], REPLACED_FROM):
        replicas = [
            _replica(numbers, f"replaced-{source}", partition, _bytes(month, numbers))
            for partition in range(PARTITIONS_FROM_EACH)
        ]
        yield Outage(source, new, day * DAY + 14 * HOUR, replicas)


def _bytes(month: Month, numbers: random.Random) -> int:
    return max(int(month.scale * min(numbers.lognormvariate(1.6, 0.6), 20.0) * GB), MIB)


def _replica(numbers: random.Random, topic: str, partition: int, size: int) -> Replica:
    message = numbers.randrange(200, 4000)
    begins = numbers.randrange(10**5, 10**8)
    written = max(numbers.randrange(20_000, 200_000) // message, 1)
    return Replica(topic, partition, message, written, begins, begins + max(size // message, 1))
