"""The tables of the loads, and their frames: the partitions and bytes of one fetch.

The leader learns from the names of topics alone what to send: a partition of topic `bytes-10000` has 10000 bytes of
records, whoever asks. So one leader serves every load, and what a proxy leaves out of a request is left out of the
answer, as with a broker. Pure. Invariant: frames are made from the field tables of `protocol`, never by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from protocol.fetch.tables import FIRST_VERSION_WITH_REPLICA_STATE, FIRST_VERSION_WITH_TOPIC_IDS, request_layout
from protocol.wire.apis import API_FETCH
from protocol.wire.framing import with_length
from protocol.wire.headers import request_header, request_header_version
from protocol.wire.layout import TAGS, member

if TYPE_CHECKING:
    from protocol.wire.primitives import TaggedFields
    from protocol.wire.topics import Topic

LEADER_ID, REPLICA_ID = 101, 102
PREFIX_BYTES = 4
CORRELATION_ID_AT = PREFIX_BYTES + 4
"""The offset in a request, length prefix included: after api key and api version."""
REFERENCE_VERSION = 3
MAX_WAIT_MS = 500
HIGH_WATERMARK = 10**9
FULL = -1
"""The session epoch of a request that wants no fetch session (KIP-227): each names all its partitions."""
FETCH_OFFSET = 1000
"""An offset far behind. In the runs it stays the same: a follower whose offset went back would count as truncated."""
KAFKA_BUFFERS = "kafka-buffers"
"""The mark in a client id that makes the leader use a broker's default socket.send.buffer.bytes on this connection."""
TOPIC = "bytes-"
TOPIC_ID = 1 << 64
"""Topic ids are this and the bytes of records."""
EPOCH = 7


@dataclass(frozen=True, slots=True)
class Load:
    """One shape of a fetch.

    Args:
        name: for tables and the command line.
        partitions: of one topic, all asked for in each fetch.
        record_bytes: what each of them brings.
        version: of the Fetch requests.
        kafka_buffers: whether both ends set the socket buffers that brokers set by default.
        connections: followers that fetch at once.
        in_sync: whether they are at the high watermark, as most are most of the time.
        copies: whether they copy what they receive out of the kernel, as brokers do.
        fetches_per_second: of each follower, who are different brokers then; 0: as many as there can be.
    """

    name: str
    partitions: int
    record_bytes: int
    version: int = REFERENCE_VERSION
    kafka_buffers: bool = False
    connections: int = 1
    in_sync: bool = False
    fetches_per_second: float = 0.0
    copies: bool = False

    @property
    def title(self) -> str:
        """The name, and in what it differs from the load of that name in `BULK`."""
        parts = [
            self.name,
            "" if self.version == REFERENCE_VERSION else f"Fetch v{self.version}",
            "in sync" if self.in_sync else "",
            "" if self.connections == 1 else f"{self.connections} connections",
            "socket buffers as brokers set them" if self.kafka_buffers else "",
            "a follower that copies" if self.copies else "",
        ]
        return ", ".join(part for part in parts if part)

    @property
    def is_small(self) -> bool:
        """Whether what counts is the time of a fetch, not its bytes."""
        return self.partitions * self.record_bytes < 64 * 1024

    def request(self, *, progress: int = 0, replica: int = REPLICA_ID) -> bytes:
        """Return a follower's request, length prefix included; the correlation id, at `CORRELATION_ID_AT`, is 0.

        `progress` is the number of records that the follower has got since the first fetch.
        """
        fetcher = f"broker-{replica}-fetcher-0" + (f"-{KAFKA_BUFFERS}" if self.kafka_buffers else "")
        head = {"api_key": API_FETCH, "api_version": self.version, "correlation_id": 0, "client_id": fetcher, TAGS: []}
        entry = {
            "fetch_offset": (HIGH_WATERMARK if self.in_sync else FETCH_OFFSET) + progress,
            "log_start_offset": 0,
            "current_leader_epoch": EPOCH,
            "last_fetched_epoch": EPOCH,
            "partition_max_bytes": max(self.record_bytes, 1024 * 1024),
            TAGS: [],
        }
        entries = [{"partition": n, **entry} for n in range(self.partitions)]
        body = {
            "replica_id": replica, "max_wait_ms": MAX_WAIT_MS, "min_bytes": 1, "max_bytes": 2**31 - 1,
            "isolation_level": 0, "session_id": 0, "session_epoch": FULL, "forgotten_topics_data": [], "rack_id": "",
            "topics": [topic_block(self.version, topic_of(self.version, self.record_bytes), entries)],
            TAGS: _replica_state(self.version, replica),
        }  # fmt: skip
        header = request_header(request_header_version(API_FETCH, self.version)).build(head)
        return with_length(bytes(header + request_layout(self.version).build(body)))


def _replica_state(version: int, replica: int) -> list[tuple[int, bytes]]:
    """Return the tags of a request: from v15 on they name the replica (KIP-903)."""
    if version < FIRST_VERSION_WITH_REPLICA_STATE:
        return []
    tags: TaggedFields = member(request_layout(version), TAGS).subcon
    return tags.encoded({"replica_state": {"replica_id": replica, "replica_epoch": EPOCH, TAGS: []}})


def topic_of(version: int, record_bytes: int) -> Topic:
    """Return the name, or from v13 on the id (KIP-516), of the topic whose partitions bring so many bytes."""
    if version < FIRST_VERSION_WITH_TOPIC_IDS:
        return f"{TOPIC}{record_bytes}"
    return (TOPIC_ID | record_bytes).to_bytes(16)


def topic_block(version: int, topic: Topic, partitions: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a topic's block of a request or response."""
    name = "topic" if version < FIRST_VERSION_WITH_TOPIC_IDS else "topic_id"
    return {name: topic, "partitions": partitions, TAGS: []}


def records_of(topic: Topic) -> int:
    """Return the bytes of records in a partition of this topic. Raises ValueError for a topic that no load has."""
    if isinstance(topic, bytes):
        return int.from_bytes(topic) & ~TOPIC_ID
    if not topic.startswith(TOPIC):
        raise ValueError(f"topic {topic!r}: expected a name such as {TOPIC}10000")
    return int(topic.removeprefix(TOPIC))


BULK = (
    Load("1 x 10 MB", 1, 10_000_000),
    Load("10 x 1 MB", 10, 1_000_000),
    Load("100 x 100 KB", 100, 100_000),
    Load("1000 x 10 KB", 1000, 10_000),
)
SMALL = Load("small fetch", 1, 64)
LOADS = {load.name: load for load in (*BULK, SMALL)}
