"""A follower's conversation with a link, without sockets or clocks: requests in, decisions out, answers in.

The fixtures of the throttle's tests; everything it does goes through the public functions that the relay calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.fetch.request import FetchRequest, parse_fetch_request
from protocol.fetch.tables import request_layout
from protocol.fetch.walker import ResponseEntry
from protocol.wire.headers import request_header
from protocol.work_in_steps import Steps, run_through
from proxy.config.settings import Policy, QuotaSettings
from proxy.quotas import Quotas, RoleQuota
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics
from proxy.throttle.decision import Decision, Forward
from proxy.throttle.link import Link
from proxy.throttle.role_throttle import RoleThrottle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.wire.buffers import Bytes

    from proxy.throttle.pending_fetch import PendingFetch

MIB = 1024 * 1024
LIMIT = MIB
"""replica.fetch.max.bytes"""
ENTRY_BYTES = 18
"""Of a v3 response's entry without records."""


def settings(policy: Policy = Policy.STRICT) -> QuotaSettings:
    return QuotaSettings(
        file=Path("quotas.toml"), policy=policy, gate_seconds=0.1, burst_seconds=0.25, window_num=11,
        window_size_seconds=1,
    )  # fmt: skip


def quotas(bytes_per_second: float, *, enforce: bool = True) -> Quotas:
    quota = RoleQuota.of_every_topic(bytes_per_second)
    return Quotas(leader=quota, follower=quota, enforce=enforce)


def throttle(
    bytes_per_second: float = 4 * MIB,
    *,
    role: Role = Role.LEADER,
    policy: Policy = Policy.STRICT,
    enforce: bool = True,
) -> RoleThrottle:
    return RoleThrottle(
        role, settings(policy), quotas=quotas(bytes_per_second, enforce=enforce), statistics=RoleStatistics(), now=0.0
    )


def fetch_frame(
    offsets: dict[tuple[str, int], int],
    *,
    version: int = 3,
    max_wait_ms: int = 500,
    limit: int = LIMIT,
    replica_id: int = 102,
) -> bytes:
    """One follower's Fetch of these fetch_offsets, as Construct builds it."""
    head = {"api_key": 1, "api_version": version, "correlation_id": 7, "client_id": "broker-102-fetcher-0"}
    topics = [
        {
            "topic": topic,
            "partitions": [
                {
                    "partition": partition,
                    "fetch_offset": offset,
                    "log_start_offset": 0,
                    "partition_max_bytes": limit,
                }
            ],
        }
        for (topic, partition), offset in offsets.items()
    ]
    body = {
        "replica_id": replica_id, "max_wait_ms": max_wait_ms, "min_bytes": 1, "max_bytes": 10 * MIB,
        "isolation_level": 0, "topics": topics,
    }  # fmt: skip
    return bytes(request_header(1).build(head) + request_layout(version).build(body))


def response_entry(
    topic: str,
    partition: int,
    record_bytes: int = 0,
    *,
    high_watermark: int = 9,
    error: int = 0,
    log_start: int = -1,
    stable: int = -1,
) -> ResponseEntry:
    """A leader's entry of so many record bytes, as the walker reports it."""
    return ResponseEntry(
        topic,
        partition,
        error,
        high_watermark,
        stable,
        log_start,
        entry_at=0,
        records_at=ENTRY_BYTES,
        records_size=record_bytes,
    )


def pass_answer(
    pending: PendingFetch,
    entries: Iterable[tuple[ResponseEntry, Bytes]],
    now: float,
    *,
    head: tuple[int, int] = (0, 0),
) -> list[ResponseEntry]:
    """An answer goes through, one entry with its records after the other, in the order that `pending_fetch` tells.
    `head`: its error code and session id. Returns the entries whose records were withheld."""
    pending.must_discard(now)
    pending.answered(*head)
    withheld = []
    for entry, records in entries:
        if pending.withholds(entry):
            withheld.append(entry)
        if pending.throttle.charges_on_send:
            pending.charge_on_send((entry,), now)
        pending.forwards((entry,), records, len(records), now)
    pending.finish(now)
    return withheld


@dataclass
class Conversation:
    """One link and what its follower knows: offsets by partition."""

    throttle: RoleThrottle
    now: float = 0.0
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.link = Link(self.throttle, "peer")

    def ask(self, *, version: int = 3, max_wait_ms: int = 500) -> Decision:
        """The follower fetches what it wants now."""
        return run_through(self.ask_in_steps(version=version, max_wait_ms=max_wait_ms))

    def ask_in_steps(self, *, version: int = 3, max_wait_ms: int = 500) -> Steps[Decision]:
        frame = fetch_frame(self.offsets, version=version, max_wait_ms=max_wait_ms)
        self.demand = yield from self.link.begin(frame, parse_fetch_request(frame), self.now)
        return (yield from self.link.decide(self.demand, self.now))

    def decide(self) -> Decision:
        return run_through(self.link.decide(self.demand, self.now))

    def sent_on(self, decision: Decision) -> FetchRequest:
        """The request the leader gets."""
        assert isinstance(decision, Forward)
        return parse_fetch_request(self.demand.frame if decision.frame is None else decision.frame)

    def asked_for(self, decision: Decision) -> dict[tuple[str, int], int]:
        """partition_max_bytes by partition, in the order in which the leader gets them."""
        return {(e.topic, e.partition): e.partition_max_bytes for e in self.sent_on(decision).entries}

    def answer(
        self,
        decision: Decision,
        records: dict[tuple[str, int], int] | None = None,
        *,
        high_watermark: int = 1_000_000,
        error: int = 0,
    ) -> PendingFetch:
        """The leader answers with so many record bytes, one offset per 1000 bytes, and the response goes through."""
        assert isinstance(decision, Forward)
        pending = decision.pending
        assert pending is not None
        sizes = {key: (records or {}).get(key, 0) for key in self.asked_for(decision)}
        entries = [
            response_entry(*key, size, high_watermark=high_watermark, error=error) for key, size in sizes.items()
        ]
        pass_answer(pending, [(entry, b"") for entry in entries], self.now)
        for key, size in sizes.items():
            self.offsets[key] += size // 1000
        return pending

    def meet(self, *, high_watermark: int = 1_000_000) -> None:
        """First contact: learn the high watermarks, no records."""
        self.answer(self.ask(), high_watermark=high_watermark)


def behind(partitions: int = 1, **options: object) -> Conversation:
    """A follower of so many partitions, all of them behind and known to be."""
    conversation = Conversation(throttle(**options))
    conversation.offsets = {("t", p): 0 for p in range(partitions)}
    conversation.meet()
    return conversation
