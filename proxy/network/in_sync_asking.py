"""Asks a broker how many replicas of a partition are in sync, for topics that have throttled replicas behind.

It asks by Metadata, on a connection of its own, and only while there is something to put in order: not while no replica
is behind, nor while no quota is finite. Metadata counts the replicas that a reassignment adds, so each partition that
moves looks under-replicated: ListPartitionReassignments tells which those are. What the answers mean is worked out in
`throttle.needs`. If no broker answers (the listener wants SASL or TLS and there is no login), all replicas are alike,
as they are without priorities.

Invariant: asking takes no more than `MOST_SHARE` of the time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from protocol.metadata import replica_counts
from protocol.reassignments import REASSIGNMENT_VERSIONS, added_replicas, reassignments_request
from protocol.wire.apis import API_LIST_PARTITION_REASSIGNMENTS

from .broker_asking import ASKING_ERRORS, CLIENT_ID, answer_of
from .metadata_asking import (
    ANSWER_SECONDS,
    MOST_BYTES,
    TOPICS_AT_ONCE,
    NobodyAnswersError,
    first_answer,
    metadata_of,
    pause_seconds,
    read_answer,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from protocol.metadata import ReplicaCount
    from protocol.wire.topics import Topic

    from ..logs.log import Log
    from ..throttle.needs import Needs
    from ..throttle.role_throttle import RoleThrottle
    from .broker_asking import Broker

LOOK_SECONDS = 1.0
"""How often it is looked which topics have replicas that are behind."""
MOST_SHARE = 0.02
"""The share of time that asking may take: an answer about 50 topics of 1000 partitions takes a thread half a second."""
AGAIN_SECONDS = 30.0
"""The pause before the next question if no broker has answered."""
MOST_KEYS_A_STEP = 20_000
"""So many replicas are looked at before others have their turn: a millisecond."""


class InSyncAsking:
    """Of one process."""

    def __init__(self, needs: Needs, throttles: Collection[RoleThrottle]) -> None:
        self._needs = needs
        self._throttles = throttles
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
                pause = pause_seconds(trio.current_time() - began, pause, MOST_SHARE)
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
        """Learn what the first broker says that answers; return what went wrong if none does."""

        async def question(broker: Broker) -> dict[Topic, dict[int, ReplicaCount]]:
            counts = await metadata_of(broker, topics, replica_counts)
            if any(has.in_sync < has.replicas for partitions in counts.values() for has in partitions.values()):
                return without_added(counts, await added_at(broker))
            return counts

        try:
            told = await first_answer(brokers, question)
        except NobodyAnswersError as error:
            self._needs.learn(None, topics, trio.current_time())
            return str(error)
        self._needs.learn(told, topics, trio.current_time())
        return None


async def added_at(broker: Broker) -> dict[str, dict[int, int]]:
    """Return how many replicas are being added, by topic name and partition; nothing if the broker does not say: one
    before Kafka 2.4, one that is not the controller of a cluster with ZooKeeper, or one that does not let us ask."""
    try:
        with trio.fail_after(ANSWER_SECONDS):
            frame, version = await answer_of(
                broker,
                API_LIST_PARTITION_REASSIGNMENTS,
                REASSIGNMENT_VERSIONS,
                lambda version: reassignments_request(0, client_id=CLIENT_ID, version=version),
                most_bytes=MOST_BYTES,
            )
        return await read_answer(added_replicas, frame, version)
    except (*ASKING_ERRORS, trio.TooSlowError):
        return {}


def without_added(
    counts: Mapping[Topic, Mapping[int, ReplicaCount]], added: Mapping[str, Mapping[int, int]]
) -> dict[Topic, dict[int, ReplicaCount]]:
    """Return the counts without the replicas that are being added. A topic that is there by its id too has the same
    mapping there."""
    of_mapping = {id(counts[name]): partitions for name, partitions in added.items() if name in counts}
    return {
        topic: {
            number: has._replace(replicas=max(has.replicas - of_mapping.get(id(partitions), {}).get(number, 0), 1))
            for number, has in partitions.items()
        }
        for topic, partitions in counts.items()
    }


def _alike(topics: Sequence[Topic]) -> list[Topic]:
    """Those that can be asked for together with the first: all by name, or all by id."""
    return [topic for topic in topics if isinstance(topic, type(topics[0]))]
