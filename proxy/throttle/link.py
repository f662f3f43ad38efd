"""One replica fetcher's connection as a state machine: a Fetch request and the time in, a decision out.

    request ─▶ begin ─▶ Demand ─▶ decide ─┬─▶ Forward(frame, outlook)   something may be fetched now
                          ▲               ├─▶ Hold(until) ──┐           everything is over quota
                          └───────────────┼─────────────────┘           (again at `until`, or when quotas change)
                                          └─▶ Answer(frame)             held for max_wait_ms: nothing to give yet

Pure: no socket, no clock. Knows a role's throttle and the wire format's views, nothing of bytes in flight.

Invariants: a request that still has something to fetch is never held; in-sync and unknown replicas always go on;
only what this connection forwarded since the replica was last missing is replayed; partition_max_bytes is lowered,
never raised, never 0; offsets, epochs and the replica id are never touched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from protocol.fetch_request import FetchRequest, rebuild_fetch_request
from protocol.fetch_response import ReplayedEntry, empty_fetch_response

from ..roles import Role
from .budget import Wish
from .outlook import Outlook, PartitionKey
from .replica import Replica, Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

    from protocol.walker import RequestEntry

    from .role_throttle import RoleThrottle

ABSENCE_SECONDS = 10.0
"""A partition missing from requests for longer is met anew."""
LEAST_HOLD_SECONDS = 0.002
"""Waits are never shorter, so that rounding cannot turn one into a loop."""
LEAST_FORWARDED_WAIT_MS = 10
"""The shortest max_wait_ms asked of a leader: an idle link makes at most so many fetches a second."""
FIRST_CONTACT_BYTES = 1
"""partition_max_bytes for a replica that must go on though the budget allows it nothing, because there is no high
watermark to answer it with: one batch of the first such partition comes (KIP-74's at least one message), of the
others only the high watermark. 0 would not do: it makes a leader answer at once (1400 fetches a second, measured)."""
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


class _Candidate(NamedTuple):
    """A throttled replica that a grant is for."""

    entry: RequestEntry
    replica: Replica

    @property
    def key(self) -> PartitionKey:
        return (self.entry.topic, self.entry.partition)

    def wish(self) -> Wish:
        """A replica that stalls gets what shows that it goes on again, and leaves the rest to others."""
        limit, need = max(self.entry.partition_max_bytes, 0), self.replica.need_bytes
        return Wish(min(limit, need) if self.replica.stalls else limit, need)


@dataclass(slots=True)
class Demand:
    """A request being decided, perhaps several times."""

    frame: bytes
    request: FetchRequest
    arrived: float

    @property
    def deadline(self) -> float:
        return self.arrived + self.request.max_wait_ms / 1000


class _Sorted(NamedTuple):
    """A request's entries by what may be done with them."""

    watched: dict[PartitionKey, Replica]
    free: list[RequestEntry]
    """Unthrottled, in sync, or truncated: these go on as they are."""
    behind: list[_Candidate]
    """These go on if the budget allows."""
    new: list[_Candidate]
    """These go on, with what the budget allows."""


class Link:
    """The throttle's view of one connection. `peer` names the other broker for people: its id, once known."""

    def __init__(self, throttle: RoleThrottle, peer: str) -> None:
        self.throttle = throttle
        self.peer = peer
        self.replicas: dict[PartitionKey, Replica] = {}
        """Those of the last request, and those missing from it for less than `ABSENCE_SECONDS`."""
        self._asked: Set[PartitionKey] = set()
        self._expected_at: float | None = None
        """When the leader answers what was forwarded last if there is nothing new; None if something was granted."""
        self._is_live = False
        """Replicas in sync bring the follower back before that: producers write to them."""
        self._claim = throttle.budget.turns.join()
        throttle.links.add(self)

    def close(self) -> None:
        self.throttle.links.discard(self)
        self.throttle.budget.turns.leave(self._claim)

    def forget(self) -> None:
        """A fetch passed unseen: what was known of the replicas may be out of date."""
        self.replicas = {}
        self._asked = set()
        self._claim.wants = False

    def begin(self, frame: bytes, request: FetchRequest, now: float) -> Demand:
        """Take the follower's request; replicas it leaves out are remembered for `ABSENCE_SECONDS`."""
        if self.throttle.role is Role.LEADER:
            self.peer = str(request.replica_id)
        if self._expected_at is not None:
            self._is_live = now < self._expected_at
        known = self.replicas
        present: dict[PartitionKey, Replica] = {}
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
                replica.asked(entry, now, returns=key not in self._asked)
            present[key] = replica
        self._asked = present.keys()
        missing = {
            key: replica
            for key, replica in known.items()
            if key not in present and now - replica.seen_at < ABSENCE_SECONDS
        }
        self.replicas = {**present, **missing}
        return Demand(frame, request, now)

    def decide(self, demand: Demand, now: float, *, may_hold: bool = True) -> Decision:
        """Return what to do with the request at `now`. Side effects: grants are reserved, omissions counted.

        Without `may_hold` it is decided as at its deadline: there is no time to wait.
        """
        if self.throttle.is_idle:
            self.forget()
            return Forward(None, None)
        entries = self._sort(demand.request)
        if not self.throttle.enforce:
            return self._observe(demand, entries, now)
        if not entries.behind and not entries.new:
            return self._pass(demand, entries, now)
        candidates = entries.behind + (entries.new if self._shapes(demand) else [])
        granted = self._admit(candidates, now, rides=self._is_live and bool(entries.free))
        waiting = [c for c in entries.behind if c.key not in granted]
        if waiting and not granted and not entries.free and not entries.new:
            if may_hold and now < demand.deadline:
                return self._hold(demand, now)
            if all(candidate.replica.replayable for candidate in waiting):
                return self._answer(demand, waiting)
        return self._forward(demand, entries, granted, now)

    def _sort(self, request: FetchRequest) -> _Sorted:
        found = _Sorted({}, [], [], [])
        for entry in request.entries:
            key = (entry.topic, entry.partition)
            replica = self.replicas.get(key)
            if replica is None or not self.throttle.quota.selects(*key):
                found.free.append(entry)
                continue
            found.watched[key] = replica
            if replica.standing is Standing.BEHIND:
                found.behind.append(_Candidate(entry, replica))
            elif replica.standing is Standing.NEW:
                found.new.append(_Candidate(entry, replica))
            else:
                found.free.append(entry)
        found.behind.sort(key=lambda candidate: candidate.replica.served)
        return found

    def _shapes(self, demand: Demand) -> bool:
        return self.throttle.shapes and demand.request.head.api_version >= FIRST_VERSION_WITH_KIP74

    def _admit(self, candidates: Sequence[_Candidate], now: float, *, rides: bool) -> dict[PartitionKey, int]:
        """Return what is granted, in the order of `candidates`; a partition that is listed twice is granted once."""
        wishes: dict[PartitionKey, Wish] = {}
        for candidate in candidates:
            wishes.setdefault(candidate.key, candidate.wish())
        if not wishes:
            self._claim.wants = False
            return {}
        grants = self.throttle.budget.admit(self._claim, list(wishes.values()), now, rides=rides)
        self._claim.due = now
        if grants == [wish.limit_bytes for wish in wishes.values()]:
            self._claim.wants = False
        return dict(zip(wishes, grants, strict=False))

    def _pass(self, demand: Demand, entries: _Sorted, now: float) -> Forward:
        """Nothing to shape: unthrottled or in sync, every one of them."""
        self._claim.wants = False
        self._expected_at = demand.deadline
        return Forward(None, self._outlook(demand, entries, now) if entries.watched else None)

    def _hold(self, demand: Demand, now: float) -> Hold:
        turn = now + max(self.throttle.budget.seconds_until_turn(self._claim, now), LEAST_HOLD_SECONDS)
        self._claim.due = min(turn, demand.deadline)
        return Hold(self._claim.due)

    def _answer(self, demand: Demand, waiting: Sequence[_Candidate]) -> Answer:
        self.throttle.statistics.omitted_partitions += len(waiting)
        self.throttle.statistics.local_answers += 1
        head = demand.request.head
        return Answer(empty_fetch_response(head.api_version, head.correlation_id, _replays(waiting)))

    def _forward(self, demand: Demand, entries: _Sorted, granted: dict[PartitionKey, int], now: float) -> Forward:
        """Ask for what was granted first (KIP-74: the first with data gets at least one batch), then for the rest."""
        shapes = self._shapes(demand)
        omitted = [c for c in entries.behind if c.key not in granted and c.replica.replayable]
        left_out = {c.key for c in omitted}
        unspent = dict(granted)
        first: list[tuple[RequestEntry, int]] = []
        last: list[tuple[RequestEntry, int]] = []
        for entry, key in ((c.entry, c.key) for c in entries.behind + entries.new if c.key not in left_out):
            most = unspent.pop(key, FIRST_CONTACT_BYTES) if shapes else entry.partition_max_bytes
            (first if key in granted else last).append((entry, min(most, entry.partition_max_bytes)))
        wanted = first + [(e, e.partition_max_bytes) for e in entries.free] + last
        self.throttle.statistics.omitted_partitions += len(omitted)
        outlook = self._outlook(demand, entries, now)
        outlook.withhold = {c.key for c in entries.behind} - left_out
        outlook.grants = granted
        outlook.first = next((key for key in granted if key in outlook.withhold), None)
        outlook.replays = _replays(omitted)
        max_wait_ms = self._max_wait_ms(demand, hurries=bool(omitted) and not granted, now=now)
        self._expected_at = None if granted else now + max_wait_ms / 1000
        if not omitted and all(size == entry.partition_max_bytes for entry, size in wanted):
            return Forward(None, outlook if entries.watched else None)
        frame = rebuild_fetch_request(demand.frame, demand.request, wanted, max_wait_ms=max_wait_ms)
        return Forward(frame, outlook if entries.watched else None)

    def _observe(self, demand: Demand, entries: _Sorted, now: float) -> Forward:
        """Change nothing; remember what enforcing would have left out."""
        granted = self._admit(entries.behind, now, rides=self._is_live and bool(entries.free))
        outlook = self._outlook(demand, entries, now)
        outlook.withhold = {candidate.key for candidate in entries.behind}
        outlook.grants = granted
        outlook.observed = outlook.withhold - granted.keys()
        self.throttle.statistics.omitted_partitions += len(outlook.observed)
        return Forward(None, outlook if entries.watched else None)

    def _outlook(self, demand: Demand, entries: _Sorted, now: float) -> Outlook:
        version = demand.request.head.api_version
        return Outlook(self.throttle, self._claim, version, admitted_at=now, watched=entries.watched)

    def _max_wait_ms(self, demand: Demand, *, hurries: bool, now: float) -> int:
        """Return how long the leader may wait: what is left of the follower's own max_wait_ms, and if it `hurries` no
        longer than until it is our turn. What was granted has data, so it comes at once, or as soon as a sidecar on the
        leader's side lets it."""
        max_wait_ms = max(int((demand.deadline - now) * 1000), 0)
        if hurries:
            turn_ms = self.throttle.budget.seconds_until_turn(self._claim, now) * 1000
            # Rounded up: an answer just before the gate opens would cost another fetch, and its wait.
            max_wait_ms = math.ceil(min(max_wait_ms, max(turn_ms, LEAST_FORWARDED_WAIT_MS)))
            self._claim.due = now + max_wait_ms / 1000
        return min(max_wait_ms, demand.request.max_wait_ms)


def _replays(omitted: Iterable[_Candidate]) -> list[ReplayedEntry]:
    return [ReplayedEntry(*c.key, c.replica.high_watermark, c.replica.log_start_offset) for c in omitted]
