"""Asks a broker how many replicas are in sync, of topics of which some replica is behind and limited.

By Metadata, on a connection of its own, as long as there is something to put in order: nobody is asked while nothing is
behind, or while no quota is finite. What it means is `throttle.needs`. Where no broker answers (the listener wants SASL
or TLS and there is no login), all replicas are alike, as they are without priorities.

Invariant: asking takes no more than `MOST_SHARE` of the time.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import trio

from protocol.metadata import METADATA_VERSION, NAMED_METADATA_VERSIONS, metadata_request, replica_counts

from .broker_asking import ASKING_ERRORS, CLIENT_ID, READING_THREADS, answer_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from protocol.metadata import ReplicaCount
    from protocol.wire.topics import Topic

    from ..logs.log import Log
    from ..throttle.needs import Needs
    from ..throttle.role_throttle import RoleThrottle
    from .broker_asking import Broker

LOOK_SECONDS = 1.0
"""So often it is looked which topics are behind."""
MOST_SHARE = 0.02
"""The share of time that asking may take: an answer about 50 topics of 1000 partitions takes a thread half a second."""
AGAIN_SECONDS = 30.0
"""After no broker has answered."""
ANSWER_SECONDS = 5.0
TOPICS_AT_ONCE = 50
MOST_BYTES = 16 * 1024 * 1024
LARGE_BYTES = 4 * 1024
"""An answer from here on is read by a thread: it has a hundred partitions, which takes two milliseconds."""
MOST_KEYS_A_STEP = 20_000
"""So many replicas are looked at before others have their turn: a millisecond."""


class InSyncAsking:
    """Of one process."""

    def __init__(self, needs: Needs, throttles: Collection[RoleThrottle]) -> None:
        self._needs = needs
        self._throttles = throttles
        self._version = METADATA_VERSION
        """By which names are asked for; brokers before 2.8 close the connection on it."""
        self._told: str | None = None

    async def run(self, brokers: Iterable[Broker], log: Log) -> None:
        """Ask now and then, until cancelled."""
        while True:
            self._needs.look(await self._behind())
            due = self._needs.due(trio.current_time())
            pause = LOOK_SECONDS
            if due:
                began = trio.current_time()
                failure = await self._ask(brokers, _alike(due)[:TOPICS_AT_ONCE])
                if failure is not None:
                    pause = AGAIN_SECONDS
                    if self._told is None:
                        log.info("replicas_in_sync_unknown", error=failure)
                self._told = failure
                pause = max(pause, (trio.current_time() - began) / MOST_SHARE)
            await trio.sleep(pause)

    async def _behind(self) -> set[Topic]:
        """Topics of which some replica is behind, on a connection whose role or a part of it is limited."""
        found: set[Topic] = set()
        if not self._needs.priorities.most_urgency:
            return found
        looked = 0
        for throttle in self._throttles:
            limited = throttle.finer is not None or not math.isinf(throttle.quota.bytes_per_second)
            for link in tuple(throttle.links) if limited else ():
                behind = tuple(link.replicas.behind)
                found.update(topic for topic, _ in behind)
                looked += len(behind)
                if looked >= MOST_KEYS_A_STEP:
                    looked = 0
                    await trio.lowlevel.checkpoint()
        return found

    async def _ask(self, brokers: Iterable[Broker], topics: Sequence[Topic]) -> str | None:
        """Ask one broker after the other; return what went wrong if none answers."""
        failure = "there is no broker to ask"
        for broker in tuple(brokers):
            for version in self._versions(topics):
                try:
                    with trio.fail_after(ANSWER_SECONDS):
                        told = await ask(broker, topics, version=version)
                except (*ASKING_ERRORS, trio.TooSlowError) as error:
                    failure = f"{broker}: {error or type(error).__name__}"
                else:
                    self._version = version
                    self._needs.learn(told, topics, trio.current_time())
                    return None
        self._needs.learn(None, topics, trio.current_time())
        return failure

    def _versions(self, topics: Sequence[Topic]) -> list[int]:
        if isinstance(topics[0], bytes):
            return [METADATA_VERSION]
        return [self._version, *({METADATA_VERSION, NAMED_METADATA_VERSIONS.start} - {self._version})]


def _alike(topics: Sequence[Topic]) -> list[Topic]:
    """Those that can be asked for together with the first: all by name, or all by id."""
    return [topic for topic in topics if isinstance(topic, type(topics[0]))]


async def ask(broker: Broker, topics: Sequence[Topic], *, version: int) -> dict[Topic, dict[int, ReplicaCount]]:
    """Return what the broker says of these topics, by name and by id. Raises one of ASKING_ERRORS."""
    request = metadata_request(0, topics, client_id=CLIENT_ID, version=version)
    frame = await answer_of(broker, request, most_bytes=MOST_BYTES)
    if len(frame) < LARGE_BYTES:
        return replica_counts(frame, version=version)
    return await trio.to_thread.run_sync(partial(replica_counts, frame, version=version), limiter=READING_THREADS)
