"""A follower and a leader of Fetch v7 to v18 with a link between them: Kafka's own ends of a session, no sockets.

The follower is `FetchSessionHandler`, the leader `FetchSessionCache`; what the link decides in between is done as the
relay would do it. One offset is one message of `MESSAGE_BYTES`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from lab.embedded.session_cache import FetchSessionCache
from lab.embedded.session_handler import FetchSessionHandler
from lab.embedded.session_values import Ask, Read, SessionResponse
from protocol.fetch.request import FetchRequest, SessionAt, parse_fetch_request
from protocol.fetch.tables import FIRST_VERSION_WITH_REPLICA_STATE, NO_SESSION_ID, request_layout, response_layout
from protocol.fetch.walker import ResponseEntry
from protocol.session.requests import PartitionKey, SessionRequest
from protocol.wire.apis import API_FETCH
from protocol.wire.headers import request_header, request_header_version, response_header_version
from protocol.wire.layout import TAGS, bare, member
from protocol.work_in_steps import Steps, run_through
from proxy.quotas import Quotas, RoleQuota
from proxy.quotas.replicas import EVERY_PARTITION, Partitions
from proxy.throttle.decision import Answer, Decision, Demand, Forward, Hold
from proxy.throttle.link import Link

from .conversation import ENTRY_BYTES, LIMIT, MIB, pass_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from proxy.throttle.pending_fetch import PendingFetch
    from proxy.throttle.role_throttle import RoleThrottle

MESSAGE_BYTES = 1000
LEADER = "101"


def topic_of(version: int, name: str = "t") -> str | bytes:
    """What Fetch calls a topic: by its id since v13."""
    return name.encode().ljust(16, b"-") if version >= 13 else name


def only(topic: str, bytes_per_second: float = 4 * MIB, partitions: Partitions = EVERY_PARTITION) -> Quotas:
    """Quotas that list nothing but these partitions."""
    quota = RoleQuota(bytes_per_second, topics={topic: partitions})
    return Quotas(leader=quota, follower=quota)


def session_frame(
    version: int,
    request: SessionRequest[Ask],
    *,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    replica_id: int = 102,
    isolation_level: int = 0,
    client_id: str = "broker-102",
    rack_id: str = "",
) -> bytes:
    """The follower's frame, or that of a consumer (-1), as Construct builds it."""
    head = {"api_key": API_FETCH, "api_version": version, "correlation_id": 7, "client_id": client_id, TAGS: []}
    layout = request_layout(version)
    body: dict[str, Any] = {
        "replica_id": replica_id, "max_wait_ms": max_wait_ms, "min_bytes": min_bytes, "max_bytes": 10 * MIB,
        "isolation_level": isolation_level,
        "session_id": request.session_id, "session_epoch": request.session_epoch,
        "topics": _blocks(request.listed, lambda key: _partition(key[1], request.listed[key])),
        "forgotten_topics_data": _blocks(request.forgotten, itemgetter(1)),
        "rack_id": rack_id, TAGS: [],
    }  # fmt: skip
    if version >= FIRST_VERSION_WITH_REPLICA_STATE and replica_id >= 0:
        state = {"replica_id": 102, "replica_epoch": 9, TAGS: []}
        body[TAGS] = bare(member(layout, TAGS)).encoded({"replica_state": state})
    return bytes(request_header(request_header_version(API_FETCH, version)).build(head) + layout.build(body))


def _blocks(keys: Iterable[PartitionKey], of: Callable[[PartitionKey], object]) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "topic_id": topic, "partitions": [of(key) for key in group], TAGS: []}
        for topic, group in itertools.groupby(keys, key=itemgetter(0))
    ]


def _partition(partition: int, ask: Ask) -> dict[str, Any]:
    return {"partition": partition, **ask._asdict(), TAGS: []}


def as_session_request(frame: bytes) -> SessionRequest[Ask]:
    """A frame as the leader takes it."""
    found = parse_fetch_request(frame)
    listed = {
        (e.topic, e.partition): Ask(e.fetch_offset, e.partition_max_bytes, e.current_leader_epoch)
        for e in found.entries
    }
    return SessionRequest(found.head.api_version, listed, found.session_id, found.session_epoch, tuple(found.forgotten))


def parsed_answer(version: int, frame: bytes) -> SessionResponse:
    """A frame without records, as Construct reads it."""
    assert frame[:4] == (7).to_bytes(4)
    body = response_layout(version).parse(frame[4 + response_header_version(API_FETCH, version) :])
    assert body.throttle_time_ms == 0
    entries = {
        (block.topic_id if version >= 13 else block.topic, found.partition_index): Read(found.high_watermark)
        for block in body.responses
        for found in block.partitions
    }
    return SessionResponse(body.get("session_id", NO_SESSION_ID), entries, body.get("error_code", 0))


@dataclass
class SessionLeader:
    """Reads what a session asks for: within the limits, the first message whole whatever they say (KIP-74)."""

    ends: dict[PartitionKey, int] = field(default_factory=dict)
    slots: int = 1000
    gives_nothing: bool = False
    """It is throttled itself, or nothing fits."""
    asked: list[SessionRequest[Ask]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cache = FetchSessionCache(itertools.count(500).__next__, slots=self.slots)

    def answer(self, frame: bytes, now: float) -> SessionResponse:
        request = as_session_request(frame)
        self.asked.append(request)
        context = self.cache.context(request, now)
        reads: dict[PartitionKey, Read] = {}
        left, at_least_one = 10 * MIB, True
        for key, ask in context.partitions.items():
            end = self.ends[key]
            count = min(ask.partition_max_bytes, left) // MESSAGE_BYTES
            count = max(min(max(count, int(at_least_one)), end - ask.fetch_offset), 0)
            count = 0 if self.gives_nothing else count
            at_least_one = at_least_one and not count
            left = max(left - count * MESSAGE_BYTES, 0)
            reads[key] = Read(end, records_size=count * MESSAGE_BYTES)
        return context.respond(reads)

    def messages(self, key: PartitionKey, offset: int, size: int) -> int:
        """Return how many whole messages there are in `size` bytes of records from `offset` on."""
        del key, offset
        return size // MESSAGE_BYTES


@dataclass
class SessionConversation:
    """`fetch` is one round trip. `wants` are the follower's fetch_offsets."""

    throttle: RoleThrottle
    wants: dict[PartitionKey, int]
    leader: SessionLeader
    version: int = 12
    now: float = 0.0

    def __post_init__(self) -> None:
        self.follower = FetchSessionHandler(self.version)
        self.reconnect()

    def reconnect(self) -> None:
        """The next request comes on another connection of the same follower."""
        if hasattr(self, "link"):
            self.link.close()
        self.link = Link(self.throttle, "peer", leader=LEADER)

    @property
    def session_id(self) -> int:
        return self.follower.session_id

    @property
    def lag(self) -> int:
        return sum(self.leader.ends[key] - offset for key, offset in self.wants.items())

    def ask(self, *, max_wait_ms: int = 500) -> Decision:
        """The follower's next request, until it is decided for the first time."""
        return run_through(self.ask_in_steps(max_wait_ms=max_wait_ms))

    def ask_in_steps(self, *, max_wait_ms: int = 500) -> Steps[Decision]:
        request = self.follower.build({key: Ask(offset, LIMIT) for key, offset in self.wants.items()})
        self.frame = session_frame(self.version, request, max_wait_ms=max_wait_ms)
        parsed = parse_fetch_request(self.frame)
        if self.link.may_pass_unseen(SessionAt(parsed.session_id, parsed.session_epoch)):
            self.link.forget()
            return Forward(None, None)
        begun = yield from self.link.begin(self.frame, parsed, self.now)
        if isinstance(begun, Answer):
            return begun
        self.demand: Demand = begun
        self.between()
        return (yield from self.link.decide(self.demand, self.now))

    def between(self) -> None:
        """Called between `begin` and `decide`."""

    def decide(self) -> Decision:
        return run_through(self.link.decide(self.demand, self.now))

    def waited(self, decision: Decision) -> Forward | Answer:
        while isinstance(decision, Hold):
            assert decision.until > self.now
            self.now = decision.until
            decision = self.decide()
        return decision

    def sent_on(self, decision: Decision) -> FetchRequest:
        assert isinstance(decision, Forward)
        return parse_fetch_request(self.frame if decision.frame is None else decision.frame)

    def asked_for(self, decision: Decision) -> dict[PartitionKey, int]:
        """partition_max_bytes of what is listed."""
        return {(e.topic, e.partition): e.partition_max_bytes for e in self.sent_on(decision).entries}

    def hear(self, decision: Forward | Answer) -> SessionResponse:
        """The answer reaches the follower, the leader's or the link's."""
        if isinstance(decision, Answer):
            response = parsed_answer(self.version, decision.frame)
        else:
            frame = self.frame if decision.frame is None else decision.frame
            response = self.leader.answer(frame, self.now)
            if decision.pending is not None:
                response = through(response, decision.pending, self.now)
        if self.follower.handle(response):
            for key, read in response.entries.items():
                self.wants[key] += read.records_size // MESSAGE_BYTES
        return response

    def fetch(self, *, max_wait_ms: int = 500) -> SessionResponse:
        return self.hear(self.waited(self.ask(max_wait_ms=max_wait_ms)))


def through(response: SessionResponse, pending: PendingFetch, now: float) -> SessionResponse:
    """What the relay makes of the leader's answer."""
    rows = [
        (
            ResponseEntry(
                *key,
                read.error_code,
                read.high_watermark,
                -1,
                read.log_start_offset,
                -ENTRY_BYTES,
                0,
                read.records_size,
            ),
            read.payload if isinstance(read.payload, bytearray) else b"",
        )
        for key, read in response.entries.items()
    ]
    withheld = pass_answer(pending, rows, now, head=(response.error_code, response.session_id))
    entries = dict(response.entries)
    for row in withheld:
        entries[row.topic, row.partition] = entries[row.topic, row.partition]._replace(records_size=0)
    for replay in pending.replays:
        assert (replay.topic, replay.partition) not in entries
        entries[replay.topic, replay.partition] = Read(replay.high_watermark, replay.log_start_offset)
    return SessionResponse(response.session_id, entries, response.error_code)
