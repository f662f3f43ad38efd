"""Which partitions the cluster has of topics that lists name: a misspelt one throttles nothing, and nobody notices.

Asked of a broker by Metadata when the lists change and once a minute, by name, without creating anything. Where no
broker answers (the listener wants SASL or TLS), nothing is known, and nothing claimed.

Invariant: a topic or partition is missing only if two answers in a row were without it: a broker that has just started
knows nothing yet.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from protocol.metadata import METADATA_VERSION, NAMED_METADATA_VERSIONS, metadata_request, partitions_by_topic

from .broker_asking import ASKING_ERRORS, CLIENT_ID, READING_THREADS, answer_of
from .topic_name_asking import ANSWER_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ..logs.log import Log
    from .broker_asking import Broker

CONFIRM_SECONDS = 5.0
"""Between the first answer about lists that are new, and the one that confirms what is missing."""
PAUSE_SECONDS = 60.0
MOST_SHARE = 0.01
"""The share of time that asking may take: a question that took one second is followed by a pause of 100."""
MOST_TOPICS = 5000
"""The most topics asked for; lists that name more are checked as far as this many."""
TOPICS_AT_ONCE = 50
"""Topics per request. The answer about 50 topics of 1000 partitions each takes a thread half a second to parse."""
MOST_BYTES = 16 * 1024 * 1024
VERSIONS = (METADATA_VERSION, NAMED_METADATA_VERSIONS.start)
"""The second one for brokers before 2.8, which close the connection on the first."""


class ListedTopics:
    """`has`: the partitions by topic, of those that were asked for; none of one that the cluster does not have."""

    def __init__(self) -> None:
        self.has: Mapping[str, frozenset[int]] = {}
        self._before: Mapping[str, frozenset[int]] = {}

    @property
    def is_confirmed(self) -> bool:
        """The last two answers said the same."""
        return self._before.keys() == self.has.keys()

    def learn(self, answer: Mapping[str, frozenset[int]]) -> None:
        """Take what the cluster has now: what one of the last two answers has is there."""
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
            with trio.move_on_after(max(pause, (trio.current_time() - began) / MOST_SHARE)):
                await wait_changed()

    async def _ask(self, topics: list[str], brokers: Iterable[Broker]) -> str | None:
        """Ask one broker after the other; return what went wrong if none answers."""
        if not topics:
            self.learn({})
            return None
        failure = "there is no broker to ask"
        for broker in tuple(brokers):
            for version in VERSIONS:
                try:
                    self.learn(await ask(broker, topics, version=version))
                except (*ASKING_ERRORS, trio.TooSlowError) as error:
                    failure = f"{broker}: {error or type(error).__name__}"
                else:
                    return None
        return failure


async def ask(broker: Broker, topics: list[str], *, version: int) -> dict[str, frozenset[int]]:
    """Return the partitions of these topics. Raises OSError, ProtocolError, trio.TooSlowError,
    trio.BrokenResourceError."""
    found: dict[str, frozenset[int]] = {}
    for first in range(0, len(topics), TOPICS_AT_ONCE):
        some = topics[first : first + TOPICS_AT_ONCE]
        with trio.fail_after(ANSWER_SECONDS):
            request = metadata_request(0, some, client_id=CLIENT_ID, version=version)
            frame = await answer_of(broker, request, most_bytes=MOST_BYTES)
        parsed = partial(partitions_by_topic, frame, version=version)
        found |= await trio.to_thread.run_sync(parsed, limiter=READING_THREADS)
    return {topic: found[topic] for topic in topics if topic in found}
