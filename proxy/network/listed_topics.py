"""Which partitions the cluster has of the topics that lists name. A misspelt topic throttles nothing, and nobody
notices.

A broker is asked by Metadata, by name and without creating a topic, when the lists change and once a minute. Where no
broker answers (the listener wants SASL or TLS), nothing is known, and nothing is said to be missing.

Invariant: a topic or partition is missing only if two answers in a row were without it: a broker that has just started
knows nothing yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from protocol.metadata import partitions_by_topic

from .metadata_asking import TOPICS_AT_ONCE, NobodyAnswersError, first_answer, metadata_of, pause_seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ..logs.log import Log
    from .broker_asking import Broker

CONFIRM_SECONDS = 5.0
"""The time between the first answer about new lists and the second one, which confirms what is missing."""
PAUSE_SECONDS = 60.0
MOST_SHARE = 0.01
"""The share of time that asking may take: a question that took one second is followed by a pause of 100."""
MOST_TOPICS = 5000
"""The most topics that are asked for. If lists name more, the others are not checked."""


class ListedTopics:
    """`has`: the partitions by topic, for the topics that the last two answers are about; an empty set for a topic that
    the cluster does not have."""

    def __init__(self) -> None:
        self.has: Mapping[str, frozenset[int]] = {}
        self._before: Mapping[str, frozenset[int]] = {}

    @property
    def is_confirmed(self) -> bool:
        """Every topic of the last answer was in the answer before as well, so that what is missing was missing
        twice."""
        return self._before.keys() == self.has.keys()

    def learn(self, answer: Mapping[str, frozenset[int]]) -> None:
        """Take what the cluster has now. A partition is there if one of the last two answers has it."""
        both = answer.keys() & self._before.keys()
        self.has = {topic: answer[topic] | self._before[topic] for topic in both}
        self._before = answer

    async def run(
        self,
        named: Callable[[int], list[str]],
        wait_changed: Callable[[], Awaitable[None]],
        brokers: Iterable[Broker],
        log: Log,
    ) -> None:
        """Ask for `named(most)` now and then, and as soon as `wait_changed` returns. Runs until cancelled."""
        told = None
        while True:
            began = trio.current_time()
            failure = await self._ask(named(MOST_TOPICS), brokers)
            if failure is not None and failure != told:
                log.warning("listed_topics_unavailable", error=failure)
            told = failure
            pause = PAUSE_SECONDS if self.is_confirmed else CONFIRM_SECONDS
            with trio.move_on_after(pause_seconds(trio.current_time() - began, pause, MOST_SHARE)):
                await wait_changed()

    async def _ask(self, topics: list[str], brokers: Iterable[Broker]) -> str | None:
        """Learn from the first broker that answers; return what went wrong if none does."""
        if not topics:
            self.learn({})
            return None
        try:
            self.learn(await first_answer(brokers, lambda broker: ask(broker, topics)))
        except NobodyAnswersError as error:
            return str(error)
        return None


async def ask(broker: Broker, topics: list[str]) -> dict[str, frozenset[int]]:
    """Return the partitions of these topics. Raises what `metadata_of` does."""
    found: dict[str, frozenset[int]] = {}
    for first in range(0, len(topics), TOPICS_AT_ONCE):
        found |= await metadata_of(broker, topics[first : first + TOPICS_AT_ONCE], partitions_by_topic)
    return {topic: found[topic] for topic in topics if topic in found}
