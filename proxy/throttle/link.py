"""One replica fetcher's connection as a state machine: a Fetch request and the time in, a decision out.

    request ─▶ begin ─▶ Demand ─▶ decide ─┬─▶ Forward(frame, outlook)   something may be fetched now
                          ▲               ├─▶ Hold(until) ──┐           everything is over quota
                          └───────────────┼─────────────────┘           (again at `until`, or when quotas change)
                                          └─▶ Answer(frame)             held for max_wait_ms: nothing to give yet

Pure: no socket, no clock. Knows a role's throttle and the wire format's views, nothing of bytes in flight.

Invariants: a request that still has something to fetch is never held; in-sync and unknown replicas always go on;
partition_max_bytes is lowered, never raised, never 0; offsets, epochs and the replica id are never touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.fetch_request import FetchRequest, rebuild_fetch_request
from protocol.fetch_response import ReplayedEntry, empty_fetch_response
from protocol.walker import RequestEntry

from .budget import Wish
from .outlook import Outlook, PartitionKey
from .replica import Replica, Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .role_throttle import RoleThrottle

LEAST_HOLD_SECONDS = 0.002
"""Waits are never shorter, so that rounding cannot turn one into a loop."""
LEAST_FORWARDED_WAIT_MS = 10
"""The shortest max_wait_ms asked of a leader: an idle link makes at most so many fetches a second."""
FIRST_CONTACT_BYTES = 1
"""partition_max_bytes for a throttled replica without a known high watermark: one batch of the first such
partition comes (KIP-74's at least one message), of the others only the high watermark. 0 would not do: it
makes a leader answer at once (experiments: 1400 fetches a second)."""
FIRST_VERSION_WITH_KIP74 = 3
"""Below v3 a partition_max_bytes smaller than a message yields half a message, so it is left as it is."""


@dataclass(frozen=True, slots=True)
class Forward:
    """Send `frame` (no length prefix; None: as it came) and treat the response by `outlook`
    (None: relay it without looking)."""

    frame: bytes | None
    outlook: Outlook | None


@dataclass(frozen=True, slots=True)
class Hold:
    """Decide again at `until`, or when the quotas change."""

    until: float


@dataclass(frozen=True, slots=True)
class Answer:
    """Send `frame` (no length prefix) to the follower; the leader is not asked."""

    frame: bytes


Decision = Forward | Hold | Answer


@dataclass(slots=True)
class Demand:
    """A request being decided, perhaps several times."""

    frame: bytes
    request: FetchRequest
    arrived: float

    @property
    def deadline(self) -> float:
        return self.arrived + self.request.max_wait_ms / 1000


@dataclass(slots=True)
class _Sorted:
    """A request's entries by what may be done with them."""

    watched: dict[PartitionKey, Replica]
    free: list[tuple[RequestEntry, int]]
    behind: list[tuple[RequestEntry, Replica]]


class Link:
    """The throttle's view of one connection. `peer` names the other broker for people."""

    def __init__(self, throttle: RoleThrottle, peer: str) -> None:
        self.throttle = throttle
        self.peer = peer
        self.replicas: dict[PartitionKey, Replica] = {}
        self._claim = throttle.budget.turns.join()
        throttle.links.add(self)

    def close(self) -> None:
        self.throttle.links.discard(self)
        self.throttle.budget.turns.leave(self._claim)

    def forget(self) -> None:
        """A fetch passed unseen: what was known of the replicas may be out of date."""
        self.replicas = {}
        self._claim.wants = False

    def begin(self, frame: bytes, request: FetchRequest, now: float) -> Demand:
        """Take the follower's request: replicas it leaves out are forgotten, the others move on."""
        known = self.replicas
        self.replicas = {}
        for entry in request.entries:
            key = (entry.topic, entry.partition)
            if not self.throttle.quota.selects(*key):
                continue
            replica = known.get(key)
            if replica is None:
                replica = Replica(entry, now)
            else:
                if replica.lag:
                    self.throttle.gain.add(entry.fetch_offset - replica.fetch_offset, now)
                replica.asked(entry)
            self.replicas[key] = replica
        return Demand(frame, request, now)

    def decide(self, demand: Demand, now: float) -> Decision:
        """Return what to do with the request at `now`. Side effects: grants are reserved, omissions counted."""
        if self.throttle.is_idle:
            self.forget()
            return Forward(None, None)
        entries = self._sort(demand.request)
        grants = self._admit(entries.behind, now)
        granted = entries.behind[: len(grants)]
        omitted = entries.behind[len(grants) :]
        if not self.throttle.enforce:
            return self._observe(demand, entries, grants, now)
        if omitted and not granted and not entries.free:
            return self._wait(demand, omitted, now)
        self.throttle.statistics.omitted_partitions += len(omitted)
        outlook = self._outlook(demand, entries, now)
        outlook.withhold = {(e.topic, e.partition) for e, _ in granted}
        outlook.grants = {(e.topic, e.partition): size for (e, _), size in zip(granted, grants, strict=True)}
        outlook.replays = _replays(omitted)
        wanted = [(e, size) for (e, _), size in zip(granted, grants, strict=True)] + entries.free
        return Forward(self._frame(demand, wanted, bool(omitted), now), outlook if entries.watched else None)

    def _sort(self, request: FetchRequest) -> _Sorted:
        shapes = self.throttle.shapes and request.head.api_version >= FIRST_VERSION_WITH_KIP74
        found = _Sorted({}, [], [])
        for entry in request.entries:
            key = (entry.topic, entry.partition)
            size = entry.partition_max_bytes
            if self.throttle.quota.selects(*key) and (replica := self.replicas.get(key)) is not None:
                found.watched[key] = replica
                if replica.standing is Standing.BEHIND:
                    found.behind.append((entry, replica))
                    continue
                if replica.standing is Standing.NEW and shapes:
                    size = min(size, FIRST_CONTACT_BYTES)
            found.free.append((entry, size))
        found.behind.sort(key=lambda pair: pair[1].served)
        return found

    def _admit(self, behind: Sequence[tuple[RequestEntry, Replica]], now: float) -> list[int]:
        if not behind:
            self._claim.wants = False
            return []
        wishes = [Wish(entry.partition_max_bytes, replica.need_bytes) for entry, replica in behind]
        grants = self.throttle.budget.admit(self._claim, wishes, now)
        self._claim.due = now
        if len(grants) == len(behind) and grants == [wish.limit_bytes for wish in wishes]:
            self._claim.wants = False
        return grants

    def _wait(
        self, demand: Demand, omitted: Sequence[tuple[RequestEntry, Replica]], now: float
    ) -> Hold | Answer:
        if now >= demand.deadline:
            self.throttle.statistics.omitted_partitions += len(omitted)
            self.throttle.statistics.local_answers += 1
            head = demand.request.head
            frame = empty_fetch_response(head.api_version, head.correlation_id, _replays(omitted))
            return Answer(frame)
        turn = now + max(self.throttle.budget.seconds_until_turn(self._claim, now), LEAST_HOLD_SECONDS)
        self._claim.due = min(turn, demand.deadline)
        return Hold(self._claim.due)

    def _observe(self, demand: Demand, entries: _Sorted, grants: Sequence[int], now: float) -> Forward:
        """Change nothing; remember what enforcing would have left out."""
        outlook = self._outlook(demand, entries, now)
        keys = [(entry.topic, entry.partition) for entry, _ in entries.behind]
        outlook.withhold = set(keys)
        outlook.grants = dict(zip(keys, grants, strict=False))
        outlook.observed = set(keys[len(grants) :])
        self.throttle.statistics.omitted_partitions += len(outlook.observed)
        return Forward(None, outlook if entries.watched else None)

    def _outlook(self, demand: Demand, entries: _Sorted, now: float) -> Outlook:
        version = demand.request.head.api_version
        return Outlook(self.throttle, self._claim, version, admitted_at=now, watched=entries.watched)

    def _frame(
        self, demand: Demand, wanted: Sequence[tuple[RequestEntry, int]], omits: bool, now: float
    ) -> bytes | None:
        """Return the request that asks for `wanted` alone, or None where that is what came."""
        request = demand.request
        if demand.request.head.api_version < FIRST_VERSION_WITH_KIP74:
            wanted = [(entry, entry.partition_max_bytes) for entry, _ in wanted]
        if not omits and all(size == entry.partition_max_bytes for entry, size in wanted):
            return None
        max_wait_ms = max(int((demand.deadline - now) * 1000), 0)
        if omits:
            turn_ms = self.throttle.budget.seconds_until_turn(self._claim, now) * 1000
            max_wait_ms = int(min(max_wait_ms, max(turn_ms, LEAST_FORWARDED_WAIT_MS)))
            self._claim.due = now + max_wait_ms / 1000
        return rebuild_fetch_request(
            demand.frame, request, wanted, max_wait_ms=min(max_wait_ms, request.max_wait_ms)
        )


def _replays(omitted: Iterable[tuple[RequestEntry, Replica]]) -> list[ReplayedEntry]:
    return [
        ReplayedEntry(entry.topic, entry.partition, replica.high_watermark, replica.log_start_offset)
        for entry, replica in omitted
    ]
