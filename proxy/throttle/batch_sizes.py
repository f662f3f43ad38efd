"""Learns where the next batches of a partition end, as far as the records that came show.

A grant is a lowered partition_max_bytes, at which the leader cuts its answer. If that is within a batch, the follower
discards a part of a batch and fetches it again: with 60 kB batches 1.36 bytes crossed the wire for each byte in the
follower's log (measured). The part that is cut off begins with its header, which tells its size. So one batch is known
in advance, and a grant for it and for the header of the one behind it wastes these 12 bytes alone.

What lies beyond one batch is a guess: that batches are as large as the largest recent one. A wrong guess wastes a part
of a batch. Where guesses have wasted more than `WASTED_SHARE` of what came, the partition is granted one batch at a
time until they may waste half a batch again. So batches that are alike come as many at once as the budget allows.

Pure. Invariant: what is believed here changes how much comes at once, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from admission.wishes import WASTED_SHARE
from protocol.fetch.batches import BATCH_HEADER_BYTES
from protocol.work_in_steps import parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.fetch.batches import BatchWalk
    from protocol.session.requests import PartitionKey
    from protocol.wire.topics import Topic
    from protocol.work_in_steps import Steps

FORGOTTEN_SHARE = 1 / 32
"""The part of `largest` that is forgotten with each answer, since batches may become smaller."""


class BatchSizes:
    """The batch sizes of one partition, in bytes; 0: unknown."""

    __slots__ = ("_credit", "_largest", "guesses", "largest", "next")

    def __init__(self) -> None:
        self.next = 0
        """The batch that the follower fetches next."""
        self._largest = 0
        self.largest = 0
        """The largest recent batch; while none was seen, the size of its topic's batches."""
        self._credit = 0.0
        """The bytes that guesses may still waste; below 0 they have wasted too much."""
        self.guesses = True
        """True if grants may be for more than one batch."""

    @property
    def seen(self) -> int:
        """The next batch, or the largest recent one."""
        return self.next or self._largest

    @property
    def first(self) -> int:
        """The bytes that probably bring the next batch, and the header of the one after it."""
        size = self.next or self.largest
        return size + BATCH_HEADER_BYTES if size else 0

    def saw_first(self, size: int) -> bool:
        """Record the size of the batch at the front of an answer; return whether that is news."""
        if size <= self._largest:
            return False
        self.largest = self._largest = size
        return True

    def suppose(self, size: int) -> bool:
        """Record what batches of its topic are like; return whether that is news."""
        if self._largest:
            return False
        self.largest = size
        return not self.next

    def saw(self, walk: BatchWalk) -> None:
        """Record that records were cut off where their grant ended."""
        largest = max(walk.largest_bytes, int(self._largest * (1 - FORGOTTEN_SHARE)))
        if walk.is_over and self.largest:  # the first cut was no guess: nothing was known before it
            most = 2.0 * largest
            credit = self._credit + WASTED_SHARE * walk.at - (walk.size - walk.at)
            self._credit = max(min(credit, most), -most)
            self.guesses = self._credit >= (0 if self.guesses else largest / 2)
        self.next, self._largest = walk.next_bytes, largest
        self.largest = largest or self.largest


class Supposes(Protocol):
    """A replica as it is told what its batches are probably like."""

    @property
    def key(self) -> PartitionKey: ...

    def suppose(self, batch_bytes: int) -> None: ...


class TopicBatches:
    """What is supposed of partitions whose batches were not seen: while all that were seen of their topic are alike,
    theirs are like them."""

    __slots__ = ("_bytes", "_news", "has_news")

    def __init__(self) -> None:
        self._bytes: dict[Topic, int] = {}
        self._news: dict[Topic, None] = {}
        self.has_news = False
        """True if something else is supposed of some topic."""

    def of(self, topic: Topic) -> int:
        """Return the size of the topic's batches; 0: unknown, or they are not alike."""
        return self._bytes.get(topic, 0)

    def saw(self, topic: Topic, size: int) -> None:
        """Record the size of batches of a topic; 0: they are not alike."""
        before = self._bytes.get(topic)
        if before is None or (before and not size):
            self._bytes[topic] = size
            self._news[topic] = None
            self.has_news = True

    def tell(self, replicas: Sequence[Supposes]) -> Steps[None]:
        """Tell the replicas of topics of which something else is supposed since the last call."""
        topics, self._news, self.has_news = self._news, {}, False
        for part in parts(replicas):
            for replica in part:
                if replica.key[0] in topics:
                    replica.suppose(self.of(replica.key[0]))
            if part is not replicas:
                yield
