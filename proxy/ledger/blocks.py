"""The blocks that a ledger hands out: fifteen seconds of sums, and how the journal's lines are read from them.

A block is handed out with its sums as they are, in a time that does not depend on the number of partitions. To sort
them takes 5 µs for each, half a second for 100 000, and is done in `Block.traffic_lines`, in a thread
of its own and with pauses. Pure; knows no file and no clock.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

from journal_schema import LINE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TAKEN_AT_ONCE = 64
"""The number of partitions that are dealt with between two pauses."""
SORTED_AT_ONCE = 4096
"""The number of partitions that are sorted in a call, during which Python runs no other thread: two milliseconds."""


def no_pause() -> None:
    """Do nothing: for callers that do not hold up others."""


class TrafficKey(NamedTuple):
    """A sum per key: a partition of a link, apart for each state it was in."""

    role: str
    peer: str
    topic: str
    partition: int
    throttled: bool
    in_sync: bool


class LinkKey(NamedTuple):
    """A line of the journal per link and block."""

    role: str
    peer: str
    throttled: bool
    in_sync: bool


class Position(NamedTuple):
    """The position of a replica; -1 for unknown values."""

    fetch_offset: int
    high_watermark: int
    log_start_offset: int


class Seconds(NamedTuple):
    """Sums of all partitions, one element per second."""

    record_bytes: list[int]
    wire_bytes: list[int]
    fetches: list[int]
    omitted: list[int]


class ReplicaTraffic(NamedTuple):
    """A partition's part of a block."""

    topic: str
    partition: int
    said: list[bool]
    """True for each second that has news."""
    second_bytes: list[int]
    """The record bytes of each second."""
    header_bytes: int
    fetches: int
    omitted: int
    before: Position
    """The replica's offset before the block; if unknown, that of its first fetch in the block."""
    position: Position


class Traffic(NamedTuple):
    """The seconds from `tick` on, of a link, as they go to the journal. Replicas in the order of their names."""

    tick: int
    link: LinkKey
    seconds: Seconds
    replicas: list[ReplicaTraffic]


class LinkSums:
    """Sums over all partitions of a link, one element per second of the block."""

    __slots__ = ("has_news", "seconds")

    def __init__(self) -> None:
        self.seconds = Seconds(*([0] * LINE_SECONDS for _ in Seconds._fields))
        self.has_news = False


class Last:
    """The last position of a replica, under whichever key; None: not known."""

    __slots__ = ("position",)

    def __init__(self) -> None:
        self.position: Position | None = None


class Sums:
    """Sums of a partition of a link."""

    __slots__ = (
        "before", "fetches", "header_bytes", "last", "link", "omitted", "position", "said", "second_bytes",
    )  # fmt: skip

    def __init__(self, link: LinkSums, last: Last, *, begins_at: Position) -> None:
        self.link = link
        self.last = last
        self.second_bytes = [0] * LINE_SECONDS
        self.said = [False] * LINE_SECONDS
        self.header_bytes = self.fetches = self.omitted = 0
        self.before = begins_at if last.position is None else last.position
        self.position = last.position
        """The replica's last offset; None: not known."""

    def stands(self, position: Position) -> None:
        self.position = self.last.position = position

    def omit_again(self, stands: tuple[int, int, int], slot: int) -> bool:
        """Count an omission of a replica that stands where it was told last; return False, and do nothing, if it stands
        elsewhere, or was told under another key since."""
        position = self.position
        if position != stands or position is not self.last.position:
            return False
        self.omitted += 1
        self.link.seconds.omitted[slot] += 1
        if not self.said[slot]:
            self.news(slot)
        return True

    def news(self, slot: int) -> None:
        self.said[slot] = self.link.has_news = True


class Block:
    """The seconds from `tick` on, `count` of them; `traffic_lines` empties it."""

    def __init__(self, tick: int, count: int, sums: dict[TrafficKey, Sums], links: dict[LinkKey, LinkSums]) -> None:
        self.tick = tick
        self._count = count
        self._sums = sums
        self._links = {link: sums.seconds for link, sums in links.items() if sums.has_news}

    @property
    def lines(self) -> int:
        """The number of links that have news, each a line of the journal."""
        return len(self._links)

    def traffic_lines(self, pause: Callable[[], object] = no_pause) -> Iterator[Traffic]:
        """Yield each link's traffic, once. `pause` is called after every few partitions. The sums are freed in turn:
        to free all of them together would keep other threads waiting."""
        replicas: dict[LinkKey, list[ReplicaTraffic]] = {link: [] for link in self._links}
        sums = self._sums
        while sums:
            for _ in range(min(TAKEN_AT_ONCE, len(sums))):
                key, each = sums.popitem()
                if each.position is not None and True in each.said:
                    link = LinkKey(key.role, key.peer, key.throttled, key.in_sync)
                    replicas[link].append(_replica(key, each, each.position, self._count))
            pause()
        for link, seconds in self._links.items():
            cut = Seconds(*(each[: self._count] for each in seconds))
            yield Traffic(self.tick, link, cut, _in_order(replicas.pop(link), pause))


def _in_order(replicas: list[ReplicaTraffic], pause: Callable[[], object]) -> list[ReplicaTraffic]:
    pieces = []
    for at in range(0, len(replicas), SORTED_AT_ONCE):
        pieces.append(sorted(replicas[at : at + SORTED_AT_ONCE]))
        pause()
    if len(pieces) == 1:
        return pieces[0]
    found = []
    for replica in heapq.merge(*pieces):
        found.append(replica)
        if not len(found) % TAKEN_AT_ONCE:
            pause()
    return found


def _replica(key: TrafficKey, sums: Sums, position: Position, count: int) -> ReplicaTraffic:
    return ReplicaTraffic(
        topic=key.topic,
        partition=key.partition,
        said=sums.said[:count],
        second_bytes=sums.second_bytes[:count],
        header_bytes=sums.header_bytes,
        fetches=sums.fetches,
        omitted=sums.omitted,
        before=sums.before,
        position=position,
    )
