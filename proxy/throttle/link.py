"""One replica fetcher's connection as a state machine: a Fetch request and the time in, a decision out.

    request ─▶ begin ─▶ Demand ─▶ decide ─┬─▶ Forward(frame, pending)   something may be fetched now
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
from typing import TYPE_CHECKING, NamedTuple

from protocol import work_in_steps
from protocol.fetch.tables import FIRST_VERSION_WITH_SESSIONS, FIRST_VERSION_WITH_WHOLE_BATCHES
from protocol.work_in_steps import collected, parts

from ..roles import Role
from ..topology.racks import Relayed
from .budget_claim import BudgetClaim
from .decision import Answer, Demand, Forward, Hold
from .link_session import LinkSession
from .replica import FOLLOWER
from .replicas import Replicas
from .request_builder import RequestBuilder

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from protocol.fetch.request import Asked, FetchRequest, SessionAt
    from protocol.session.requests import PartitionKey
    from protocol.session.state import SessionState
    from protocol.work_in_steps import Steps

    from ..ledger.link_journal import LinkJournal
    from .decision import Decision
    from .replica import LinkPolicy, ReplicaState
    from .role_throttle import RoleThrottle

REFRESH_SECONDS = 5.0
"""How long a replica may be left out of requests before it is asked for once, to learn its high watermark: its lag
grows by what producers write, and only the leader knows. Each time costs a fetch and at most one batch, which is not
passed on; a scrape every 15 seconds sees three values of the lag."""
REFRESH_CHECK_SECONDS = REFRESH_SECONDS / 5
"""The time between two searches for such replicas: each goes through all replicas that are behind."""
REFRESH_AT_ONCE = 128
"""The most of them that a fetch asks for: the next ones follow with the next grants, or after `REFRESH_CHECK_SECONDS`.
All at once, of 20 000 partitions, were 0.4 s of work every 5 seconds."""


class LinkState(NamedTuple):
    """A link as a value, from which another process goes on."""

    peer: str
    replica_id: int | None
    fetch_version: int | None
    has_begun: bool
    """True if a full Fetch has passed, so what comes is in a session of this connection."""
    passes: bool
    """True if the connection's session began with a request that passed unseen."""
    is_live: bool
    replicas: Sequence[ReplicaState]
    session: SessionState[Asked] | None
    proven_seconds: int
    """The number of seconds in which it has brought records."""


class Link:
    """The throttle's view of one connection. `peer`: the other broker, for people: its address until its id is known.
    `leader`: a value that differs from leader to leader. `policy`: of whoever fetches."""

    def __init__(
        self,
        throttle: RoleThrottle,
        peer: str,
        *,
        leader: Hashable = None,
        policy: LinkPolicy = FOLLOWER,
    ) -> None:
        self.throttle = throttle
        self._peer = peer
        self._replica_id: int | None = None
        self.relayed = Relayed()
        self.replicas = Replicas(throttle.selection, throttle.remembered, policy)
        self.policy = policy
        self._traffic = throttle.open_journal(peer, self.replicas.known)
        """The journal of this link's traffic; None: no journal is kept."""
        self.session = LinkSession(throttle, self.replicas, leader)
        self.translator = self.session.translator
        self._took_one = False
        """True if `replicas` is as the last request outside of fetch sessions left it, so that an equal request changes
        nothing."""
        self._is_live = False
        """True if producers write to partitions that are in sync here: the follower asked again before the leader's
        wait was over, so the last answer had something new."""
        self._is_timed = False
        """True if at the last request the throttle paced what catches up, by how soon the follower is back."""
        self._relayed_bytes = 0
        """The bytes of answers until the last request; counted while the throttle paces."""
        self._refresh_checked_at = -math.inf if not policy.of_consumers else math.inf
        """The time of the last search for replicas that were left out for `REFRESH_SECONDS`; inf: nobody is
        shown their lag."""
        self._unheard: list[PartitionKey] = []
        """Those that the last such search found and that have not been asked for since, the next ones last."""
        self.claim = BudgetClaim(throttle, self.replicas, peer)
        self._builder = RequestBuilder(throttle, self.replicas, self.claim, self.session, self._traffic)
        throttle.links.add(self)

    @property
    def peer(self) -> str:
        """The other broker: its id, once known; until then its address."""
        return self._peer

    @peer.setter
    def peer(self, peer: str) -> None:
        self._peer = peer
        self.claim.meet(peer)
        if self._traffic is not None:
            self._traffic.peer = peer

    def state(self, now: float) -> LinkState:
        """Return what another process is to `restore`; no request may be in flight."""
        began, passes = self.translator.state()
        return LinkState(
            peer=self.peer,
            replica_id=self._replica_id,
            fetch_version=self.replicas.fetch_version,
            has_begun=began,
            passes=passes,
            is_live=self._is_live,
            replicas=self.replicas.state(now),
            session=self.session.state(),
            proven_seconds=self.replicas.timings.proven_seconds,
        )

    def restore(self, state: LinkState, now: float) -> None:
        """Restore what the link in the other process knew, before the first request."""
        self.peer = state.peer
        self._replica_id = state.replica_id
        self._is_live = state.is_live
        self.translator.restore(began=state.has_begun, passes=state.passes)
        self.replicas.fetch_version = state.fetch_version
        self.replicas.timings.proven_seconds = state.proven_seconds
        self.replicas.restore(state.replicas, now)
        self.session.restore(state.session, now)

    def close(self) -> None:
        self.throttle.count_crossing(self)
        self.throttle.links.discard(self)
        self.claim.leave()
        self.translator.close(for_good=self.policy.of_consumers)

    def may_pass_unseen(self, session: SessionAt | None) -> bool:
        """True if a Fetch may pass unread.

        False: it has to be read and given to `begin`, because lists select partitions or because its fetch session is
        translated.
        """
        return self.throttle.is_idle and (session is None or self.translator.may_relay(*session))

    def forget(self) -> None:
        """Note that a Fetch passed unseen: what was known of the replicas may be out of date."""
        self.replicas.clear()
        self._took_one = False
        self.session.sent = None
        self.claim.want_nothing()

    def begin(
        self, frame: bytes, request: FetchRequest, now: float, *, is_same: bool = False
    ) -> Steps[Demand | Answer]:
        """Process the follower's request. `is_same`: `request` is the one before, which `frame` equals but for its
        correlation id."""
        replica_id = request.replica_id
        if self._replica_id != replica_id and replica_id >= 0 and self.throttle.role is Role.LEADER:
            self._replica_id = replica_id
            self.peer = str(replica_id)
        if self.throttle.paces or self._is_timed:
            self._look_at_return(now)
        expected_at = self._builder.expected_at
        if expected_at is not None:
            self._is_live = now < expected_at
        if self._traffic is not None:
            yield from self._tell_asked(self._traffic, request, now)
        translation, partitions = None, len(request.entries)
        if request.head.api_version >= FIRST_VERSION_WITH_SESSIONS:
            taken = yield from self.session.process_request(frame, request, now)
            if isinstance(taken, Answer):
                return taken
            translation, partitions = taken, len(taken.partitions)
        else:
            if self.replicas.reselect():
                self._took_one = False  # partitions that an equal request names may be listed now
            if is_same and self._took_one:
                yield from self.replicas.asked_again(now)
            else:
                self._took_one = False
                yield from self.replicas.asked(request.entries, now)
                self._took_one = True
        demand = Demand(frame, request, now, partitions, translation)
        if self._builder.beside is not None:
            self._builder.look_back(demand, now)
        return demand

    @staticmethod
    def _tell_asked(traffic: LinkJournal, request: FetchRequest, now: float) -> Steps[None]:
        for part in parts(request.entries):
            traffic.asked(part, now)
            if part is not request.entries:
                yield

    def _look_at_return(self, now: float) -> None:
        """Note that the follower is back: where the throttle paces catch-up beside records in sync, take how long that
        took. If it did so at the last request and does not any more, end what was bounded by that time."""
        throttle, claim = self.throttle, self.claim
        self._is_timed = throttle.paces
        since, in_sync = self.replicas.timings.take_since()
        size = self.relayed.response_bytes - self._relayed_bytes
        self._relayed_bytes += size
        if self._is_timed and self.replicas.timings.counted_as is not None:
            throttle.timings.carried(self, size)
        if self._is_timed and since is not None and (in_sync or throttle.is_auto):
            claim.came_back(now - since, size, now)
            if in_sync and throttle.is_auto:
                throttle.timings.came_back(self, now - since, size, now)
        elif claim.path.fetcher.max_bytes_beside_in_sync < math.inf and (
            not self._is_timed or (not throttle.is_auto and throttle.has_spare(now))
        ):
            claim.lift_piggyback_limit()  # producers have paused: nothing tells how soon the follower is back

    def decide(  # noqa: C901 - each call costs every fetch
        self, demand: Demand, now: float, *, may_hold: bool = True
    ) -> Steps[Decision]:
        """Return what to do with the request at `now`. Side effects: grants are reserved, omissions counted.

        Without `may_hold` the request is forwarded or answered, as at its deadline, since a drain does not wait.
        """
        throttle, replicas = self.throttle, self.replicas
        reselects = now != demand.arrived  # `begin` went by the lists of that moment
        while True:
            changes = throttle.changes
            if throttle.tree is not self.claim.tree:
                self.claim.reroute()
            if throttle.is_idle:
                self.forget()
                if demand.translation is None:
                    return Forward(None, None)
            if reselects and replicas.reselect():
                self._took_one = False
            behind, new = replicas.behind, replicas.new
            if not behind and not new:
                self.claim.want_nothing()
                return (yield from self._built((yield from self._builder.as_it_is(demand, now)), now))
            # Whether other partitions have news, so that the request goes on whatever is granted.
            beside_in_sync = (throttle.is_auto and now < throttle.timings.live_until) or (
                self._is_live and demand.partitions > len(behind) + len(new)
            )
            enforce = throttle.enforce
            shapes = throttle.shapes and demand.request.head.api_version >= FIRST_VERSION_WITH_WHOLE_BATCHES
            turn = yield from self.claim.in_turn(now, beside_in_sync=beside_in_sync)
            if len(behind) > work_in_steps.STEP_ITEMS:
                yield
            if throttle.changes == changes:
                break
            reselects = True  # quotas have changed since: decide by those there are now
        granted = self.claim.grant(turn, now, beside_in_sync=beside_in_sync)
        try:
            if not enforce:
                return (yield from self._built((yield from self._builder.observe(demand, granted, now)), now))
            if demand.translation is None and len(granted) == demand.partitions and self.claim.has_all:
                return self._builder.forward_all(demand, granted, now)
            return (yield from self._divide(demand, granted, now, may_hold=may_hold, shapes=shapes))
        except BaseException:
            self.claim.give_back(granted, now)
            raise

    def _divide(
        self, demand: Demand, granted: dict[PartitionKey, int], now: float, *, may_hold: bool, shapes: bool
    ) -> Steps[Decision]:
        """Forward what is granted and what must go on; hold or answer where nothing is left."""
        behind = self.replicas.behind
        if len(behind) > work_in_steps.STEP_ITEMS:
            yield
        waits = len(behind) == demand.partitions and behind.keys().isdisjoint(granted)
        if waits and may_hold and now < demand.deadline:
            return Hold(self.claim.looks_again(now, demand.deadline))
        unheard: frozenset[PartitionKey] = frozenset()
        refreshes = (granted and self._unheard) or now - self._refresh_checked_at >= REFRESH_CHECK_SECONDS
        if may_hold and shapes and refreshes:
            unheard = yield from self._unheard_of(granted, now)
        probed: Collection[PartitionKey] = unheard
        omitted: Sequence[PartitionKey] = ()
        if demand.is_full:
            omitted = yield from collected(
                list(behind),
                lambda part: [k for k in part if behind[k].replayable and k not in granted and k not in unheard],
            )
            probed = ()
            if len(omitted) + len(granted) < len(behind):
                probed = yield from collected(
                    list(behind),
                    lambda part: [k for k in part if k not in granted and (k in unheard or not behind[k].replayable)],
                )
        if waits and not probed:
            yield from self._tell_withheld(list(behind), now)
            return (yield from self._builder.answer(demand))
        # Within a session only changes are named, so nothing goes through all that are left out but the journal.
        if self._traffic is not None and not demand.is_full:
            omitted = yield from collected(
                list(behind), lambda part: [k for k in part if k not in granted and k not in unheard]
            )
        yield from self._tell_withheld(omitted, now)
        left_out = len(behind) - len(probed) - len(granted.keys() & behind.keys())
        ask_for = self._builder.ask_for(demand, granted, probed, unheard, omitted, left_out, now, shapes=shapes)
        return (yield from self._built((yield from ask_for), now))

    @staticmethod
    def _built(decision: Forward | Answer, now: float) -> Steps[Forward | Answer]:
        """Build the frame of a request that differs from the follower's."""
        if isinstance(decision, Forward) and decision.building is not None:
            try:
                decision.frame = yield from decision.building
            except BaseException:  # the connection has ended
                if decision.pending is not None:
                    decision.pending.lost(now)
                raise
            decision.building = None
        return decision

    def _tell_withheld(self, keys: Sequence[PartitionKey], now: float) -> Steps[None]:
        if self._traffic is not None:
            for part in parts(keys):
                self._traffic.withheld(part, now)
                if part is not keys:
                    yield

    def _unheard_of(self, granted: dict[PartitionKey, int], now: float) -> Steps[frozenset[PartitionKey]]:
        """Return the replicas that are granted nothing but are asked for all the same, to learn their high
        watermark."""
        behind, since = self.replicas.behind, now - REFRESH_SECONDS
        self._refresh_checked_at = now
        if behind.keys() <= granted.keys():
            return frozenset()
        if not self._unheard:
            self._unheard = yield from collected(
                list(reversed(behind)), lambda part: [k for k in part if behind[k].leader_asked_at <= since]
            )
        unheard = self._unheard[-REFRESH_AT_ONCE:]
        del self._unheard[-REFRESH_AT_ONCE:]
        return frozenset(k for k in unheard if k in behind and behind[k].leader_asked_at <= since and k not in granted)
