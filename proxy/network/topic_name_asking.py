"""Asks brokers for the names of topics whose ids were met in Fetch requests (KIP-516).

A broker is asked by Metadata, on a connection of its own, and only for the ids that are wanted. To read the partitions
of every topic of a large cluster takes seconds, and a follower that makes up ids could cause that again and again.

Invariant: a broker is asked at most once per `LEAST_PAUSE_SECONDS`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from protocol.metadata import METADATA_VERSIONS_BY_ID, metadata_request, topic_names_by_id
from protocol.wire.apis import API_METADATA

from ..changes import Changes
from ..threads import in_thread
from .broker_asking import ASKING_ERRORS, CLIENT_ID, READING_THREADS, answer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..logs.log import Log
    from ..throttle.topic_names import TopicNames
    from .broker_asking import Broker

LEAST_PAUSE_SECONDS = 0.25
ANSWER_SECONDS = 5.0
MOST_BYTES = 64 * 1024 * 1024
"""The longest Metadata response that is received: it has some hundred thousand partitions."""
LARGE_BYTES = 32 * 1024
"""An answer of this size or more is read by a thread: the topics asked for have a thousand partitions."""


class TopicNameAsking:
    """Of one process; it is what `names` calls when it wants more."""

    def __init__(self, names: TopicNames) -> None:
        self._names = names
        self._wanted = Changes()
        names.wanted_more = self._wanted.notify

    async def run(self, brokers: Iterable[Broker], changed: Callable[[], None], log: Log) -> None:
        """Ask whenever something is unknown; `changed` is called when more is known. Runs until cancelled."""
        told = None
        while True:
            if not self._names.has_awaited:
                await self._wanted.wait()
            asked = self._names.wanted(trio.current_time())
            if asked:
                generation = self._names.generation
                failure = await self._ask(brokers, asked)
                if failure is not None:
                    self._names.learn(None, asked, trio.current_time())
                    if failure != told:
                        log.warning("topic_names_unavailable", error=failure)
                told = failure
                if self._names.generation != generation:
                    changed()
            await trio.sleep(LEAST_PAUSE_SECONDS)

    async def _ask(self, brokers: Iterable[Broker], asked: list[bytes]) -> str | None:
        """Ask one broker after the other; return what went wrong if none answers."""
        failure = "there is no broker to ask"
        for broker in tuple(brokers):  # more may become known meanwhile
            try:
                names = await ask(broker, asked)
            except (*ASKING_ERRORS, trio.TooSlowError) as error:
                failure = f"{broker}: {error or type(error).__name__}"
            else:
                self._names.learn(names, asked, trio.current_time())
                return None
        return failure


async def ask(broker: Broker, ids: Iterable[bytes]) -> dict[bytes, str]:
    """Return the names of those of the topics that the broker has, by id.

    Raises trio.TooSlowError if the answer has not come after `ANSWER_SECONDS`, and one of ASKING_ERRORS. To read a long
    answer takes further time.
    """

    def request(version: int) -> bytes:
        return metadata_request(0, ids, client_id=CLIENT_ID, version=version)

    with trio.fail_after(ANSWER_SECONDS):
        frame, version = await answer_of(broker, API_METADATA, METADATA_VERSIONS_BY_ID, request, most_bytes=MOST_BYTES)
    if len(frame) < LARGE_BYTES:
        return topic_names_by_id(frame, version=version)
    return await in_thread(partial(topic_names_by_id, frame, version=version), limiter=READING_THREADS)
