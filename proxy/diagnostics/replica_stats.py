"""Looks at a role's replicas in turn: how many there are, how far behind, and those furthest behind.
 There may be 200 000 replicas, and to look at all of them takes a tenth of a second or more. So `replica_stats` is a
generator that yields every 0.1 ms or so, and its caller goes on with it when nothing else is to be done. A replica that
changes in between is counted as it is when it is looked at. Pure: time is an argument.

Invariant: the sums are of every connection that was open when the look began and is still open when it is looked at.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Generic, TypeVar

from protocol.fetch.tables import UNKNOWN_OFFSET, error_name
from protocol.work_in_steps import STEP_ITEMS, parts

from ..quotas.priorities import Need
from ..throttle.replica import Standing

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from ..throttle.replica import Replica
    from ..throttle.role_throttle import OpenLink, RoleThrottle

MAX_LINKS = 100
MAX_PARTITIONS = 20
"""How many connections and partitions `ReplicaStats` name, those furthest behind; the journal and Prometheus can have
all of them."""
LONGEST_ETA_SECONDS = 99 * 86400.0
"""A lag that would take longer than this to shrink to nothing has no estimated end."""
_LINKS_A_STEP = 20
"""Connections looked at between two yields, besides those for their replicas."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PartitionStats:
    """A throttled replica, as a connection knows it."""

    topic: str
    partition: int
    peer: str | None = None
    in_sync: bool = False
    lag_messages: int = 0
    rate_bytes_per_second: float = 0.0
    state: str = ""
    """The words ``in sync``, ``behind``, ``not answered yet``, or ``refused: `` with the leader's error; empty: an
    older sidecar, which does not say."""


@dataclass(frozen=True, slots=True)
class LinkStats:
    """A connection with replicas' fetches on it."""

    peer: str
    fetch_version: int | None = None
    partitions: int = 0
    """The number of throttled partitions."""
    behind: int = 0
    lag_messages: int = 0
    rate_bytes_per_second: float = 0.0
    eta_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ReplicaStats:
    """All of a role. A replica is in sync, behind or new."""

    in_sync: int = 0
    behind: int = 0
    lag_messages: int = 0
    eta_seconds: float | None = 0.0
    """The estimated seconds until nothing is behind: 0 when there is no lag; None while it does not shrink, or would
    take longer than `LONGEST_ETA_SECONDS`."""
    lag_bytes: float | None = 0.0
    """The lag in bytes: each replica's lag in messages times its average message so far, and for a replica that has
    fetched nothing yet times the average of the others. None while there is a lag and nothing has been fetched."""
    growth_bytes_per_second: float = 0.0
    """The bytes per second that producers add to the replicas that are behind."""
    new: int = 0
    """Replicas that the leader has not told of yet, or answers with an error: their lag is unknown."""
    in_need: Mapping[str, int] = field(default_factory=dict)
    """How many of those that are behind are of partitions in need, by what these lack (`quotas.priorities.Need`); no
    entry where there are none."""
    fetching: int = 0
    """Connections with replicas' fetches on them."""
    links: tuple[LinkStats, ...] = ()
    """The links furthest behind, at most `MAX_LINKS`, the furthest first."""
    partitions: tuple[PartitionStats, ...] = ()
    """The partitions furthest behind, at most `MAX_PARTITIONS`, the furthest first."""


def replica_stats(throttle: RoleThrottle, now: float) -> Generator[None, None, ReplicaStats]:
    """Yield now and then, and return the statistics."""
    tally, links = _Tally(throttle, now), _Furthest[LinkStats](MAX_LINKS)
    for number, link in enumerate(tuple(throttle.links)):
        if number % _LINKS_A_STEP == 0:
            yield
        if link in throttle.links:
            found = yield from tally.add(link)
            if found is not None:
                links.offer(found.lag_messages, found)
    return tally.whole(links)


class _Furthest(Generic[_T]):
    """Keeps the `most` items with the largest lag of all that are offered."""

    __slots__ = ("_heap", "_most", "_order")

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[int, int, _T]] = []
        self._order = count(step=-1)
        """A number that counts down, to break ties: of several items with the same lag the first ones are kept, and
        items are never compared."""

    @property
    def bar(self) -> int:
        """An item is kept only if its lag is larger than this."""
        return self._heap[0][0] if len(self._heap) == self._most else -1

    def offer(self, lag: int, item: _T) -> None:
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, (lag, next(self._order), item))
        elif lag > self._heap[0][0]:
            heapq.heapreplace(self._heap, (lag, next(self._order), item))

    def in_order(self) -> list[_T]:
        return [item for _, _, item in sorted(self._heap, key=lambda kept: kept[:2], reverse=True)]


class _Tally:
    """The sums while a role's replicas are looked at."""

    def __init__(self, throttle: RoleThrottle, now: float) -> None:
        self._throttle = throttle
        self._now = now
        self._partitions = 0
        self._behind = 0
        self._fetching = 0
        self._lag_messages = 0
        self._gain_per_second = 0.0
        self._growth_per_second = 0.0
        self._measured_lag_bytes = 0.0
        self._measured_lag_messages = 0
        self._new = 0
        self._in_need: Counter[str] = Counter()
        self._furthest = _Furthest[tuple["OpenLink", "Replica"]](MAX_PARTITIONS)

    def add(self, link: OpenLink) -> Generator[None, None, LinkStats | None]:
        """Count a connection's replicas; return the connection's own figures, None if no replica fetches over it."""
        now, furthest, urgency = self._now, self._furthest, self._throttle.urgency.known
        partitions = behind = lag_messages = 0
        rate, bar = 0.0, furthest.bar
        for step in parts(link.replicas.counted(now)):
            for replica in step:
                lag = replica.lag
                lag_messages += lag
                rate += replica.per_second(now)
                standing = standing_of(replica)
                if standing is Standing.BEHIND:
                    behind += 1
                    if urgency:
                        self._in_need[urgency.get(replica.key, Need.MOVES).value] += 1
                self._new += standing is Standing.NEW
                if lag:
                    self._add_lag(lag, replica.bytes_per_message)
                if lag > bar:
                    furthest.offer(lag, (link, replica))
                    bar = furthest.bar
            partitions += len(step)
            if len(step) == STEP_ITEMS:
                yield
        gain = link.replicas.gain.per_second(now)
        self._partitions += partitions
        self._behind += behind
        self._lag_messages += lag_messages
        self._gain_per_second += gain
        self._growth_per_second += link.replicas.growth.per_second(now)
        version = link.replicas.fetch_version
        if version is None:
            return None
        self._fetching += 1
        eta = eta_seconds(lag_messages, gain)
        return LinkStats(link.peer, version, partitions, behind, lag_messages, rate, eta)

    def _add_lag(self, lag: int, bytes_per_message: float) -> None:
        if bytes_per_message:
            self._measured_lag_bytes += lag * bytes_per_message
            self._measured_lag_messages += lag

    def _lag_bytes(self) -> float | None:
        if not self._lag_messages:
            return 0.0
        if not self._measured_lag_messages:
            return None
        return self._measured_lag_bytes * self._lag_messages / self._measured_lag_messages

    def whole(self, links: _Furthest[LinkStats]) -> ReplicaStats:
        return ReplicaStats(
            in_sync=self._partitions - self._behind - self._new,
            behind=self._behind,
            lag_messages=self._lag_messages,
            eta_seconds=eta_seconds(self._lag_messages, self._gain_per_second),
            lag_bytes=self._lag_bytes(),
            growth_bytes_per_second=self._growth_per_second,
            new=self._new,
            in_need={need: count for need, count in self._in_need.items() if need != Need.MOVES.value},
            fetching=self._fetching,
            links=tuple(sorted(links.in_order(), key=lambda link: (-link.lag_messages, link.peer))),
            partitions=tuple(self._named(link, replica) for link, replica in self._furthest.in_order()),
        )

    def _named(self, link: OpenLink, replica: Replica) -> PartitionStats:
        topic, partition = replica.key
        return PartitionStats(
            self._throttle.selection.topic_name(topic),
            partition,
            link.peer,
            standing_of(replica) in (Standing.IN_SYNC, Standing.TRUNCATED),
            replica.lag,
            replica.per_second(self._now),
            state_in_words(replica),
        )


def standing_of(replica: Replica) -> Standing:
    """Return the standing of a replica; of one that was answered since its last request, by the answer."""
    if replica.standing is not Standing.NEW or replica.high_watermark == UNKNOWN_OFFSET:
        return replica.standing
    return Standing.BEHIND if replica.lag else Standing.IN_SYNC


def state_in_words(replica: Replica) -> str:
    """Return where a replica stands, as `PartitionStats.state` has it."""
    standing = standing_of(replica)
    if standing is Standing.NEW:
        return f"refused: {error_name(replica.error_code)}" if replica.error_code else "not answered yet"
    return "behind" if standing is Standing.BEHIND else "in sync"


def eta_seconds(lag_messages: int, gain_per_second: float) -> float | None:
    """Return in how many seconds a lag is gone if it goes on shrinking at this rate; 0 if there is no lag, None while
    it does not shrink, or would take longer than `LONGEST_ETA_SECONDS`."""
    if not lag_messages:
        return 0.0
    # Multiplied, not divided: a gain that has almost faded makes a quotient that no float holds.
    if lag_messages >= LONGEST_ETA_SECONDS * gain_per_second:
        return None
    return lag_messages / gain_per_second
