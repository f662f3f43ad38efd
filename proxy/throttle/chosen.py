"""Which partitions of one connection the lists of throttled replicas select, by the lists at the last `renew`.

Pure. Invariant: between two calls of `renew` a partition stays selected or stays not selected, except where the name of
its topic becomes known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.session.requests import PartitionKey

    from .selection import Selection

MOST_FREE_TOPICS = 5_000
"""The most topics of a connection that are remembered as free; with one more, remembering starts again."""


class Chosen:
    """`free_topics`: topics of which no partition is selected, as far as they were looked up. To find a topic there
    costs less than to ask the lists."""

    __slots__ = ("_lists", "_names", "_names_known", "_selection", "free_topics")

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._names = selection.names
        self._names_known = self._names.generation
        self._lists = selection.lists
        self.free_topics: set[str | bytes] = set()

    def renew(self) -> bool:
        """Go by the lists there are now; true if they have changed, or names of topics have become known."""
        lists, names_known = self._selection.lists, self._names.generation
        if self._lists is lists and self._names_known == names_known:
            return False
        self._lists, self._names_known = lists, names_known
        self.free_topics.clear()
        return True

    def selects(self, key: PartitionKey) -> bool:
        if self._lists.selects(key):
            return True
        topic = key[0]
        if topic not in self.free_topics and not self._lists.selects_any_of(topic):
            if len(self.free_topics) >= MOST_FREE_TOPICS:
                self.free_topics.clear()
            self.free_topics.add(topic)
        return False
