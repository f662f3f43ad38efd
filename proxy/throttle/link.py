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
from typing import TYPE_CHECKING

from protocol.fetch.request import (
    MAX_INT32,
    Asked,
    FetchRequest,
    entry_bytes,
    rebuild_fetch_request,
    rebuild_session_request,
)
from protocol.fetch.response import empty_fetch_response, error_fetch_response
from protocol.fetch.tables import FIRST_VERSION_WITH_SESSIONS, NO_SESSION_ID
from protocol.session.requests import (
    Choice,
    LocalAnswer,
    SessionRequest,
    full_upstream,
)
from protocol.session.translator import SessionTranslator
from protocol.wire.headers import request_correlation_id

from ..roles import Role
from .decision import Answer, Demand, Forward, Hold
from .outlook import Outlook
from .replicas import Replicas
from .witness import Witness

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from admission.budget import Wish
    from protocol.fetch.glance import SessionAt
    from protocol.fetch.response import ReplayedEntry
    from protocol.fetch.walker import RequestEntry
    from protocol.session.requests import PartitionKey
    from protocol.session.translator import Translation

    from .decision import Decision
    from .replica import Replica
    from .role_throttle import RoleThrottle

LEAST_HOLD_SECONDS = 0.002
"""Waits are never shorter, so that rounding cannot turn one into a loop."""
LEAST_FORWARDED_WAIT_MS = 10
"""The shortest max_wait_ms asked of a leader: an idle link makes at most so many fetches a second."""
FIRST_CONTACT_BYTES = 1
"""partition_max_bytes for a replica that must go on though the budget allows it nothing, because there is no high
watermark to answer it with: one batch of the first such partition comes (KIP-74's at least one message), of the
others only the high watermark. 0 would not do: it makes a leader answer at once (1400 fetches a second, measured)."""
REFRESH_SECONDS = 5.0
"""So often replicas that were left out of every request meanwhile are asked for, for the sake of their high watermark:
their lag grows by what producers write, and nobody else tells. It costs a fetch and at most one batch, which goes no
further; a scrape every 15 seconds sees three values of it."""
REFRESH_CHECK_SECONDS = 1.0
"""To look for such replicas costs as much as there are that wait."""
FIRST_VERSION_WITH_KIP74 = 3
"""Below v3 a partition_max_bytes smaller than a message yields half a message, so it is left as it is."""


class Link:
    """The throttle's view of one connection. `peer` names the other broker for people: its id, once known; `leader`
    tells leaders apart."""

    def __init__(self, throttle: RoleThrottle, peer: str, *, leader: Hashable = None) -> None:
        self.throttle = throttle
        self.peer = peer
        self._replica_id: int | None = None
        self.replicas = Replicas(throttle.selection, throttle.remembered)
        ledger = throttle.ledger
        self._witness = None if ledger is None else Witness(ledger, throttle, self.replicas, peer)
        """Who tells the journal, if one is kept."""
        self.translator = SessionTranslator(throttle.sessions, leader)
        self._entries: list[RequestEntry] = []
        self._sent: Translation[Asked] | None = None
        """What was forwarded last within a fetch session: of that one are `replicas`, once the leader has answered."""
        self._expected_at: float | None = None
        """When the leader answers what was forwarded last if there is nothing new; None if what may have data
        was asked for."""
        self._is_live = False
        """Replicas in sync bring the follower back before that: producers write to them."""
        self._beside: Outlook | None = None
        """Of the last full request that asked for grants and for others: a leader's side that allows no grants cannot
        hold it."""
        self._refresh_checked_at = -math.inf
        """When it was last looked whether some were left out for `REFRESH_SECONDS`."""
        self._claim = throttle.budget.turns.join()
        throttle.links.add(self)

    def close(self) -> None:
        self.throttle.links.discard(self)
        self.throttle.budget.turns.leave(self._claim)
        self.translator.close()

    def may_pass_unseen(self, session: SessionAt | None) -> bool:
        """Tell whether a Fetch may pass without a look; if not it is to `begin`, whatever the lists say."""
        return self.throttle.is_idle and (session is None or self.translator.may_relay(*session))

    def forget(self) -> None:
        """A fetch passed unseen: what was known of the replicas may be out of date."""
        self.replicas.clear()
        self._entries = []
        self._sent = None
        self._claim.wants = False

    def begin(self, frame: bytes, request: FetchRequest, now: float) -> Demand | Answer:
        """Take the follower's request; for one that is equal but for its correlation id, the one before will do."""
        if self._replica_id != request.replica_id and self.throttle.role is Role.LEADER:
            self._replica_id = request.replica_id
            self.peer = str(request.replica_id)
            if self._witness is not None:
                self._witness.peer = self.peer
        if self._expected_at is not None:
            self._is_live = now < self._expected_at
        if self._witness is not None:
            self._witness.asked(request.entries, now)
        if request.head.api_version >= FIRST_VERSION_WITH_SESSIONS:
            return self._begin_in_session(frame, request, now)
        self.replicas.reselect()
        if request.entries is self._entries:
            self.replicas.asked_the_same(now)
        else:
            self.replicas.asked(request.entries, now)
            self._entries = request.entries
        self._look_back(now)
        return Demand(frame, request, now)

    def _look_back(self, now: float) -> None:
        """Grants that brought nothing though there is something come back too soon to be of use at once."""
        outlook, self._beside = self._beside, None
        if outlook is not None and outlook.brought_nothing and outlook.first in self.replicas.behind:
            self._claim.rest(now)

    def _begin_in_session(self, frame: bytes, request: FetchRequest, now: float) -> Demand | Answer:
        listed = {
            (e.topic, e.partition): Asked(e.topic, entry_bytes(frame, e), e.partition_max_bytes)
            for e in request.entries
        }
        version = request.head.api_version
        taken = self.translator.take(
            SessionRequest(version, listed, request.session_id, request.session_epoch, request.forgotten), now
        )
        if isinstance(taken, LocalAnswer):
            return _error(frame, request, taken)
        if len(taken.partitions) > self.throttle.remembered.most_of_connection:
            # All of them in one full request are more than is decoded, and pass: the follower does not come back so.
            taken.lost()
            return _error(frame, request, self.translator.refuse(request.session_id))
        if taken.request.is_full:
            self.replicas.reselect()
            self.replicas.asked(request.entries, now)
            self._look_back(now)
        elif self._goes_on(taken):
            self.replicas.asked_more(request.entries, request.forgotten, now)
        else:
            taken.lost()
            return _error(frame, request, self.translator.refuse(request.session_id))
        return Demand(frame, request, now, taken)

    def _goes_on(self, taken: Translation[Asked]) -> bool:
        """Tell whether all that is to be known of the session's replicas is known. If not it has to start again: a
        leader tells a high watermark once, when a partition is new to the session."""
        if self.throttle.is_idle or self._sent is None or taken.session is not self._sent.session:
            return False
        if not self.replicas.reselect():
            return True
        known, selects = self.replicas.known, self.throttle.selection.selects
        return all(key in known or not selects(key) for key in taken.partitions)

    def decide(self, demand: Demand, now: float, *, may_hold: bool = True) -> Decision:
        """Return what to do with the request at `now`. Side effects: grants are reserved, omissions counted.

        Without `may_hold` it is decided as at its deadline: there is no time to wait.
        """
        if self.throttle.is_idle:
            self.forget()
            if demand.translation is None:
                return Forward(None, None)
        self.replicas.reselect()
        behind, new = self.replicas.behind, self.replicas.new
        if not behind and not new:
            self._claim.wants = False
            return self._as_it_is(demand, self._outlook(demand, now))
        rides = self._is_live and demand.partitions > len(behind) + len(new)
        if not self.throttle.enforce:
            return self._observe(demand, self._admit(now, with_new=False, rides=rides), now)
        granted = self._admit(now, with_new=self._shapes(demand), rides=rides)
        waiting = [key for key in behind if key not in granted] if granted else list(behind)
        unheard = self._unheard_of(demand, waiting, now) if may_hold else frozenset()
        if len(waiting) == demand.partitions and not unheard:
            if may_hold and now < demand.deadline:
                return self._hold(demand, now)
            if not demand.is_full or all(behind[key].replayable for key in waiting):
                return self._answer(demand, waiting, now)
        return self._forward(demand, granted, unheard, now)

    def _unheard_of(self, demand: Demand, waiting: list[PartitionKey], now: float) -> frozenset[PartitionKey]:
        """Return those of `waiting` whose high watermark is to be asked for now, though they are granted nothing."""
        if now - self._refresh_checked_at < REFRESH_CHECK_SECONDS or not waiting or not self._shapes(demand):
            return frozenset()
        self._refresh_checked_at = now
        behind, since = self.replicas.behind, now - REFRESH_SECONDS
        return frozenset(key for key in waiting if behind[key].leader_asked_at <= since)

    def _shapes(self, demand: Demand) -> bool:
        return self.throttle.shapes and demand.request.head.api_version >= FIRST_VERSION_WITH_KIP74

    def _admit(self, now: float, *, with_new: bool, rides: bool) -> dict[PartitionKey, int]:
        """Return what is granted, in order: those that were served longest ago first, those never met last."""
        replicas, claim = self.replicas, self._claim
        if not replicas.behind and not (with_new and replicas.new):
            claim.wants = False
            return {}
        order: list[Replica] = []
        grants = self.throttle.budget.admit(claim, self._wishes(order, with_new=with_new), now, rides=rides)
        claim.due = now
        if order and grants == [replica.wish.limit_bytes for replica in order]:
            claim.wants = False
        return {replica.key: granted for replica, granted in zip(order, grants, strict=False)}

    def _wishes(self, order: list[Replica], *, with_new: bool) -> Iterator[Wish]:
        """What they wish for whose turn it is, put in `order`: not even that if nothing can be granted."""
        order += self.replicas.in_turn(with_new=with_new)
        yield from [replica.wish for replica in order]

    def _hold(self, demand: Demand, now: float) -> Hold:
        turn = now + max(self.throttle.budget.seconds_until_turn(self._claim, now), LEAST_HOLD_SECONDS)
        self._claim.due = min(turn, demand.deadline)
        return Hold(self._claim.due)

    def _answer(self, demand: Demand, waiting: list[PartitionKey], now: float) -> Answer:
        self._withheld(waiting, now)
        self.throttle.statistics.omitted_partitions += len(waiting)
        self.throttle.statistics.local_answers += 1
        session_id = NO_SESSION_ID
        if demand.translation is not None:
            answer = demand.translation.decide(Choice(frozenset(waiting)))
            if not isinstance(answer, LocalAnswer):
                raise AssertionError("a request of which nothing is left went on to the leader")
            if answer.error_code:
                return _error(demand.frame, demand.request, answer)
            session_id = answer.session_id
        version = demand.request.head.api_version
        replays = self._replays(waiting) if demand.is_full else []
        return Answer(empty_fetch_response(version, demand.correlation_id, replays, session_id=session_id))

    def _as_it_is(self, demand: Demand, outlook: Outlook) -> Forward | Answer:
        """Nothing to shape: unthrottled or in sync, every one of them; or quotas are only observed."""
        self._expected_at = demand.deadline
        if demand.translation is None:
            return Forward(None, outlook if self.replicas.known or self._witness is not None else None)
        return self._sent_on(demand, Choice(), outlook, demand.request.max_wait_ms)

    def _forward(
        self, demand: Demand, granted: dict[PartitionKey, int], unheard: frozenset[PartitionKey], now: float
    ) -> Forward | Answer:
        """Ask for what was granted first (KIP-74: the first with data gets at least one batch), then for the rest."""
        behind, new = self.replicas.behind, self.replicas.new
        if demand.translation is None and len(granted) == demand.partitions and not self._claim.wants:
            return self._forward_all(demand, granted, now)
        replays = demand.is_full
        omitted = [
            key
            for key, replica in behind.items()
            if key not in granted and key not in unheard and (replica.replayable or not replays)
        ]
        self._withheld(omitted, now)
        left_out = frozenset(omitted)
        probed = [key for key in (*behind, *new) if key not in granted and key not in left_out]
        if self._shapes(demand):
            choice = Choice(left_out, granted, dict.fromkeys(probed, FIRST_CONTACT_BYTES))
        else:
            choice = Choice(left_out, dict.fromkeys(granted, MAX_INT32))
        self.throttle.statistics.omitted_partitions += len(omitted)
        outlook = self._outlook(demand, now)
        outlook.catches_up = len(behind) > len(omitted)
        outlook.grants = granted
        outlook.first = next((key for key in granted if key in behind), None)
        outlook.replays = self._replays(omitted) if replays else []
        # Behind grants that have data a partition_max_bytes of 1 brings nothing, so nothing need be gathered for it.
        outlook.confirms = (frozenset(probed) - unheard if granted else frozenset(probed)) & behind.keys()
        self.replicas.leader_is_asked((*granted, *probed), now)
        if replays and granted and demand.partitions > len(granted) + len(omitted):
            self._beside = outlook
        max_wait_ms = self._max_wait_ms(demand, hurries=bool(omitted) and not granted, now=now)
        self._expected_at = None if granted or probed else now + max_wait_ms / 1000
        return self._sent_on(demand, choice, outlook, max_wait_ms)

    def _forward_all(self, demand: Demand, granted: dict[PartitionKey, int], now: float) -> Forward:
        """Everything there is in full, in the follower's own order, which gives each its turn to be first."""
        outlook = self._outlook(demand, now)
        outlook.catches_up = True
        outlook.grants = granted
        first = demand.request.entries[0]
        outlook.first = (first.topic, first.partition)
        self._expected_at = None
        return Forward(None, outlook)

    def _sent_on(self, demand: Demand, choice: Choice, outlook: Outlook, max_wait_ms: int) -> Forward | Answer:
        frame, request, translation = demand.frame, demand.request, demand.translation
        if translation is None:
            left_out = choice.omitted
            kept = {key: e for e in request.entries if (key := (e.topic, e.partition)) not in left_out}
            asks = full_upstream(SessionRequest(request.head.api_version, kept), choice, NO_SESSION_ID)
            if asks.as_it_came and not left_out:
                return Forward(None, outlook)
            limited = [(entry, limit_bytes) for _, entry, limit_bytes in asks.listed]
            return Forward(rebuild_fetch_request(frame, request, limited, max_wait_ms=max_wait_ms), outlook)
        upstream = translation.decide(choice)
        if isinstance(upstream, LocalAnswer):
            outlook.lost(outlook.admitted_at)
            return _error(frame, request, upstream)
        outlook.translation = self._sent = translation
        if upstream.as_it_came and max_wait_ms >= request.max_wait_ms:
            return Forward(None, outlook)
        rebuilt = rebuild_session_request(
            frame,
            request,
            (entry._replace(partition_max_bytes=limit_bytes) for _, entry, limit_bytes in upstream.listed),
            forgotten=upstream.forgotten,
            session_id=upstream.session_id,
            session_epoch=upstream.session_epoch,
            max_wait_ms=max_wait_ms,
        )
        return Forward(rebuilt, outlook)

    def _observe(self, demand: Demand, granted: dict[PartitionKey, int], now: float) -> Forward | Answer:
        """Change nothing; remember what enforcing would have left out."""
        outlook = self._outlook(demand, now)
        outlook.grants = granted
        outlook.observed = frozenset(self.replicas.behind.keys() - granted.keys())
        self.throttle.statistics.omitted_partitions += len(outlook.observed)
        return self._as_it_is(demand, outlook)

    def _outlook(self, demand: Demand, now: float) -> Outlook:
        version = demand.request.head.api_version
        return Outlook(
            self.throttle, self._claim, self.replicas, version=version, admitted_at=now, witness=self._witness
        )

    def _withheld(self, keys: Iterable[PartitionKey], now: float) -> None:
        if self._witness is not None:
            self._witness.withheld(keys, now)

    def _replays(self, omitted: Iterable[PartitionKey]) -> list[ReplayedEntry]:
        known = self.replicas.known
        return [known[key].replay() for key in omitted]

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


def _error(frame: bytes, request: FetchRequest, answer: LocalAnswer) -> Answer:
    version, correlation_id = request.head.api_version, request_correlation_id(frame)
    return Answer(error_fetch_response(version, correlation_id, answer.error_code, session_id=answer.session_id))
