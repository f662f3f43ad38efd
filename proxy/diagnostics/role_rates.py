"""Measures the bytes per second that pass in a role: in three parts (catching up, in sync, everything else), and of
each throttled partition.

Worked out from counters that the data path keeps anyway, once a second. Pure: time is an argument, in seconds.
Invariants: the three rates together are the bytes relayed to followers. A partition that two connections ask for, an
old one and its successor, has one rate, the sum of both.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from protocol.work_in_steps import STEP_ITEMS, parts

if TYPE_CHECKING:
    from collections.abc import Generator

    from protocol.session.requests import PartitionKey

    from ..statistics.counters import RoleStatistics
    from ..throttle.role_throttle import RoleThrottle

WINDOW_SECONDS = 11.0
"""The window of these rates: KIP-73's default, so that they and the role's measured rate cover the same time."""


class RoleRates(NamedTuple):
    """Bytes per second in the direction that records go, from leaders to followers."""

    catching_up: float = 0.0
    """The rate of records of listed replicas that are behind, which the quota holds back."""
    in_sync: float = 0.0
    """The rate of records of listed replicas in sync, which count against the quota and are never held back."""
    other: float = 0.0
    """The rate of everything else: replicas that no list names, clients, traffic that is not understood (TLS, unknown
    versions), and the bytes of responses besides their records."""


class _Sample(NamedTuple):
    at: float
    catching_up: int
    in_sync: int
    relayed: int


class RoleRateMeter:
    """Works out the rates of a role."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()

    def sample(self, statistics: RoleStatistics, now: float) -> None:
        """Note the counters as they are now."""
        samples = self._samples
        samples.append(
            _Sample(
                now,
                statistics.throttled_bytes_catching_up,
                statistics.throttled_bytes_in_sync,
                statistics.relayed_response_bytes,
            )
        )
        while len(samples) > 2 and now - samples[1].at >= WINDOW_SECONDS:
            samples.popleft()

    def measure(self) -> RoleRates:
        """Return the rates between the oldest sample of the window and the last; nothing before there are two."""
        if not self._samples:
            return RoleRates()
        first, last = self._samples[0], self._samples[-1]
        seconds = last.at - first.at
        if seconds <= 0:
            return RoleRates()
        catching_up, in_sync = last.catching_up - first.catching_up, last.in_sync - first.in_sync
        # Responses are counted as they leave, their entries as they are read: for a moment the latter may be more.
        other = max(last.relayed - first.relayed - catching_up - in_sync, 0)
        return RoleRates(catching_up / seconds, in_sync / seconds, other / seconds)


class PartitionRate(NamedTuple):
    """A series of `[http] partition_rates`, as KIP-73's PartitionBytesInRate."""

    topic: str
    """The topic's name, or its id as Kafka's tools write one until a broker has told the name."""
    partition: int
    bytes_per_second: float


def partition_rates(throttle: RoleThrottle, now: float) -> Generator[None, None, list[PartitionRate]]:
    """Yield every 0.1 ms or so, since there may be 200 000, and return a rate for each throttled replica that was
    asked for lately, in no order."""
    rates: defaultdict[PartitionKey, float] = defaultdict(float)
    for link in tuple(throttle.links):
        for step in parts(link.replicas.counted(now)):
            for replica in step:
                rates[replica.key] += replica.per_second(now)
            yield
    name = throttle.selection.topic_name
    found: list[PartitionRate] = []
    items = iter(rates.items())
    while part := tuple(islice(items, STEP_ITEMS)):
        found += [PartitionRate(name(topic), partition, rate) for (topic, partition), rate in part]
        yield
    return found
