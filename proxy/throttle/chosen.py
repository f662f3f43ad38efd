"""Which partitions of one connection the lists select, by the lists there were when it was looked last.

Pure. Invariant: between two calls of `renew` the answer to the same question is the same, but for topics whose names
become known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.session.requests import PartitionKey

    from .selection import Selection

MOST_FREE_TOPICS = 5_000
"""Of one connection; beyond them they are looked up again."""


class Chosen:
    """`free_topics` are some of those of which no partition is selected: to find one here costs least."""

    __slots__ = ("_lists", "_names", "_names_known", "_selection", "free_topics")

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._names = selection.names
        self._names_known = self._names.generation
        self._lists = selection.lists
        self.free_topics: set[str | bytes] = set()

    def renew(self) -> bool:
        """By the lists there are now; tell whether they have changed."""
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
