"""Well-formed Fetch requests and the answers that belong to them, grown at random from the project's own tables.

What a mutation begins with: a body that is right in every byte gets far, and what is wrong about it then is met deep
inside. Pure. Invariant: a body is what Construct builds of the table of its version; equal seeds grow equal bodies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from protocol.fetch.tables import (
    FIRST_VERSION_WITH_SESSIONS,
    FIRST_VERSION_WITH_TOPIC_IDS,
    request_layout,
    response_layout,
)
from protocol.wire.layout import TAGS

from .known_frames import replica_state

if TYPE_CHECKING:
    from random import Random

    from protocol.wire.topics import Topic

NAMES = ("orders", "t", "clicks-eu", "__consumer_offsets", "__cluster_metadata", "t" * 249, "\u00fc" * 60)
ERRORS = (1, 3, 6, 9, 70, 71, 74, 75, 76, 100, -1)
OFFSETS = (0, 1, 42, 10**9, 2**63 - 1, -1, -(2**63))
SIZES = (*[0] * 12, 1, 1, 61, 61, 127, 128, 1000, 16_384)
CONSUMER = -1


@dataclass(frozen=True, slots=True)
class Exchange:
    """A body of a request and the one of an answer to it, without their headers."""

    version: int
    request: bytes
    answer: bytes


def exchange(rng: Random, version: int, *, replica_id: int | None = None) -> Exchange:
    """Make a request and an answer with entries for the same partitions."""
    wanted = _wanted(rng, version)
    if replica_id is None:
        replica_id = rng.choice((102, 102, 102, 103, CONSUMER, -2, 2**31 - 1))
    in_session = version >= FIRST_VERSION_WITH_SESSIONS and rng.random() < 0.5
    session = (rng.choice((0, 1, 2**31 - 1)), rng.choice((0, 1, 2, -1))) if in_session else (0, -1)
    return Exchange(
        version,
        bytes(request_layout(version).build(_request(rng, version, replica_id, session, wanted))),
        bytes(response_layout(version).build(_answer(rng, version, session, wanted))),
    )


Wanted = list[tuple["Topic", list[int]]]


def _wanted(rng: Random, version: int) -> Wanted:
    names = rng.sample(NAMES, rng.choice((0, 1, 1, 2, 3)))
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    return [
        (rng.randbytes(16) if by_id else name, [rng.choice((n, n, 2**31 - 1, -1)) for n in range(rng.choice(COUNTS))])
        for name in names
    ]


COUNTS = (0, 1, 1, 2, 3, 10, 60)


def _block(version: int, topic: Topic, partitions: list[Any]) -> dict[str, Any]:
    name = "topic" if version < FIRST_VERSION_WITH_TOPIC_IDS else "topic_id"
    return {name: topic, "partitions": partitions, TAGS: []}


def _request(rng: Random, version: int, replica_id: int, session: tuple[int, int], wanted: Wanted) -> dict[str, Any]:
    def entry(partition: int) -> dict[str, Any]:
        return {
            "partition": partition, "current_leader_epoch": rng.choice((-1, 0, 7)),
            "fetch_offset": rng.choice(OFFSETS), "last_fetched_epoch": -1, "log_start_offset": 0,
            "partition_max_bytes": rng.choice((0, 1, 2**20, 2**31 - 1, -1)), TAGS: [],
        }  # fmt: skip

    forgotten = [_block(version, topic, partitions[:2]) for topic, partitions in wanted if rng.random() < 0.2]
    return {
        "replica_id": replica_id, "max_wait_ms": rng.choice((0, 1, 50, 500, -1)), "min_bytes": 1,
        "max_bytes": rng.choice((2**20, 10 * 2**20, 2**31 - 1, 0, -1)), "isolation_level": 0,
        "session_id": session[0], "session_epoch": session[1],
        "topics": [_block(version, topic, [entry(one) for one in partitions]) for topic, partitions in wanted],
        "forgotten_topics_data": forgotten, "rack_id": rng.choice(("", "eu")),
        TAGS: replica_state(version, replica_id),
    }  # fmt: skip


def _answer(rng: Random, version: int, session: tuple[int, int], wanted: Wanted) -> dict[str, Any]:
    def entry(partition: int) -> dict[str, Any]:
        records = None if rng.random() < 0.05 else rng.randbytes(rng.choice(SIZES))
        aborted = (
            [{"producer_id": 1, "first_offset": 2, TAGS: []}] * rng.choice((0, 0, 1, 3)) if rng.random() < 0.7 else None
        )
        return {
            "partition_index": partition, "error_code": rng.choice(ERRORS) if rng.random() < 0.1 else 0,
            "high_watermark": rng.choice(OFFSETS), "last_stable_offset": -1, "log_start_offset": 0,
            "aborted_transactions": aborted, "preferred_read_replica": -1, "records": records,
            TAGS: [],
        }  # fmt: skip

    blocks = [_block(version, topic, [entry(one) for one in partitions]) for topic, partitions in wanted]
    if rng.random() < 0.2:
        rng.shuffle(blocks)
    return {
        "throttle_time_ms": 0, "error_code": rng.choice(ERRORS) if rng.random() < 0.05 else 0,
        "session_id": session[0] or rng.choice((0, 5)), "responses": blocks, TAGS: [],
    }  # fmt: skip
