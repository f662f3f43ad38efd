"""Makes the request to the leader, or the answer in its place, once each replica of a request has its grant.

Pure. Knows the link's replicas and its session, nothing of whose turn it is.

Invariants: what was omitted of a full request is replayed from what this connection forwarded; a replica that cannot be
replayed is asked for instead, with as little as can be asked for; but for what was chosen, a request goes on byte for
byte as the follower wrote it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from protocol import work_in_steps
from protocol.fetch.request import MAX_INT32, Asked, FetchRequestBuilder
from protocol.fetch.response import ReplayedTopics, replayed_topics, response_of_topics
from protocol.fetch.tables import NO_SESSION_ID
from protocol.session.requests import Choice, LocalAnswer
from protocol.work_in_steps import LIGHT, collected, freed, gathered, parts

from .decision import Answer, Forward, error_answer
from .pending_fetch import PendingFetch
from .replica import FIRST_CONTACT_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from protocol.fetch.request import FetchRequest
    from protocol.fetch.response import ReplayedEntry
    from protocol.fetch.walker import RequestEntry
    from protocol.session.requests import PartitionKey, Upstream
    from protocol.session.translator import Translation
    from protocol.work_in_steps import Steps

    from ..ledger.link_journal import LinkJournal
    from .budget_claim import BudgetClaim
    from .decision import Demand
    from .link_session import LinkSession
    from .replicas import Replicas
    from .role_throttle import RoleThrottle


class RequestBuilder:
    """Turns one link's decisions into requests to its leader, or into answers."""

    __slots__ = ("_claim", "_replayed", "_replicas", "_session", "_throttle", "_traffic", "beside", "expected_at")

    def __init__(
        self,
        throttle: RoleThrottle,
        replicas: Replicas,
        claim: BudgetClaim,
        session: LinkSession,
        traffic: LinkJournal | None,
    ) -> None:
        self._throttle = throttle
        self._replicas = replicas
        self._claim = claim
        self._session = session
        self._traffic = traffic
        self._replayed: tuple[int, Sequence[ReplayedEntry], tuple[int, bytes]] | None = None
        """The version, the entries and what they are encoded as, if the last request left out many: from one fetch to
        the next they are mostly the same, and are not encoded again."""
        self.expected_at: float | None = None
        """The time at which the leader answers the request forwarded last if it has nothing new; None if partitions
        that are known to have data were requested."""
        self.beside: PendingFetch | None = None
        """The pending fetch of the last request if it asked for granted replicas and for others as well. A sidecar
        beside the leader that allows the granted ones nothing cannot hold such a request, and answers at once."""

    def look_back(self, demand: Demand, now: float) -> None:
        """Process the follower's next request. If the grants of the last one brought no records although the replica is
        behind, have the claim rest for a while: the same grants would bring nothing again if given at once."""
        pending, self.beside = self.beside, None
        if pending is None or pending.first is None or not pending.brought_nothing:
            return
        replica = self._replicas.behind.get(pending.first)
        if replica is None:
            return
        path = self._claim.path
        if demand.is_full:
            path.fetcher.rest(now)

    def answer(self, demand: Demand) -> Steps[Answer]:
        """Answer the follower here, since every partition that it asked for is behind and over quota."""
        waiting, version = list(self._replicas.behind), demand.request.head.api_version
        entries, encoded = (yield from self._replays(version, waiting)) if demand.is_full else ((), None)
        self._throttle.statistics.omitted_partitions += len(waiting)
        self._throttle.statistics.local_answers += 1
        session_id = NO_SESSION_ID
        if demand.translation is not None:
            answer = demand.translation.answer_here()
            if answer.error_code:
                return error_answer(demand.frame, demand.request, answer)
            session_id = answer.session_id
        topics = replayed_topics(version, entries) if encoded is None else encoded
        return Answer(response_of_topics(version, demand.correlation_id, topics, session_id=session_id))

    def as_it_is(self, demand: Demand, now: float) -> Steps[Forward | Answer]:
        """Forward a request of which every partition is in sync or not throttled."""
        return self._unshaped(demand, self._pending(demand, {}, now))

    def _unshaped(self, demand: Demand, pending: PendingFetch) -> Steps[Forward | Answer]:
        self.expected_at, self._replayed = demand.deadline, None
        if demand.translation is None:
            wanted = self._replicas.known or self._traffic is not None or self._throttle.timings.are_wanted
            return Forward(None, pending if wanted else None)
        choice = Choice(restored=self._session.restore_all(demand.translation))
        return (yield from self.send_on(demand, demand.translation, choice, pending, demand.request.max_wait_ms))

    def ask_for(
        self,
        demand: Demand,
        granted: dict[PartitionKey, int],
        probed: Collection[PartitionKey],
        unheard: frozenset[PartitionKey],
        omitted: Sequence[PartitionKey],
        left_out: int,
        now: float,
        *,
        shapes: bool,
    ) -> Steps[Forward | Answer]:
        """Ask for what was chosen: the granted replicas first, since the first partition with data brings at least one
        batch (KIP-74), then all others that are not left out. `probed`: replicas that are behind, were granted nothing
        and have to be asked for. `omitted`: those that a full request leaves out, `left_out` how many any does."""
        behind, new = self._replicas.behind, self._replicas.new
        self._throttle.statistics.omitted_partitions += left_out
        pending = self._pending(demand, granted, now)
        if probed:
            # After granted replicas, which have data, a partition_max_bytes of 1 brings no records, so none have to be
            # taken away, and the response need not be kept to its end for that.
            free = unheard if granted else ()
            confirms = yield from gathered(list(probed), lambda part: {key: None for key in part if key not in free})
            pending.confirms = confirms.keys()
        asked = yield from gathered([*granted, *probed], dict.fromkeys)
        probed = list(probed)
        if new:
            probed += yield from collected(list(new), lambda part: [k for k in part if k not in granted])
        pending.catches_up = len(behind) > left_out
        pending.is_tight = shapes and not self._claim.has_all
        pending.first = next((key for key in granted if key in behind), None)
        if demand.is_full:
            pending.replays, pending.encoded_replays = yield from self._replays(pending.version, omitted)
        keys = (*granted, *probed)
        for some in parts(keys):
            self._replicas.leader_is_asked(some, now)
            if some is not keys:
                yield
        if granted and demand.partitions > len(granted) + left_out:
            self.beside = pending
        # A granted replica has data, so its answer comes at once, or as soon as a sidecar beside the leader lets it:
        # with what is left after a hold here, that would often have to answer before its turn, without records.
        max_wait_ms = demand.request.max_wait_ms
        if not granted:
            max_wait_ms = self._max_wait_ms(demand, hurries=left_out > 0, now=now)
        self.expected_at = None if granted or probed else now + max_wait_ms / 1000
        if shapes:
            limits = granted, (yield from gathered(probed, lambda part: dict.fromkeys(part, FIRST_CONTACT_BYTES)))
        else:
            limits = dict.fromkeys(granted, MAX_INT32), {}
        if demand.translation is None:
            left = behind.keys() if left_out else frozenset()
            return (yield from without_session(demand, (left, asked), limits, pending, max_wait_ms))
        omits, restored = yield from self._session.leave_out(demand.translation, asked)
        choice = Choice(omits, *limits, restored)
        return (yield from self.send_on(demand, demand.translation, choice, pending, max_wait_ms))

    def forward_all(self, demand: Demand, granted: dict[PartitionKey, int], now: float) -> Forward:
        """Forward the request as it came, since all of it is granted in full; the follower's own order lets each
        partition be the first one in turn."""
        pending = self._pending(demand, granted, now)
        pending.catches_up = True
        first = demand.request.entries[0]
        pending.first = (first.topic, first.partition)
        self.expected_at = None
        return Forward(None, pending)

    def send_on(
        self, demand: Demand, translation: Translation[Asked], choice: Choice, pending: PendingFetch, max_wait_ms: int
    ) -> Steps[Forward | Answer]:
        """Forward what was chosen in the request's fetch session."""
        asks = yield from translation.decide(choice)
        if isinstance(asks, LocalAnswer):
            self._replicas.moved = None
            pending.lost(pending.admitted_at)
            return error_answer(demand.frame, demand.request, asks)
        pending.translation = self._session.sent = translation
        return in_session(demand, asks, pending, max_wait_ms)

    def observe(self, demand: Demand, granted: dict[PartitionKey, int], now: float) -> Steps[Forward | Answer]:
        """Forward the request unchanged (observe mode), and remember what would have been left out of it."""
        pending = self._pending(demand, granted, now)
        left = yield from gathered(
            list(self._replicas.behind), lambda part: {key: None for key in part if key not in granted}
        )
        pending.observed = left.keys()
        self._throttle.statistics.omitted_partitions += len(left)
        return (yield from self._unshaped(demand, pending))

    def _pending(self, demand: Demand, granted: dict[PartitionKey, int], now: float) -> PendingFetch:
        version = demand.request.head.api_version
        return PendingFetch(self._throttle, self._claim, self._replicas, granted, version, now, self._traffic)

    def _replays(
        self, version: int, omitted: Sequence[PartitionKey]
    ) -> Steps[tuple[Sequence[ReplayedEntry], tuple[int, bytes] | None]]:
        """Return the entries that repeat what was forwarded of these; if they are many, encoded too."""
        known, last = self._replicas.known, self._replayed
        entries = yield from collected(omitted, lambda part: [known[key].replay() for key in part])
        if len(entries) <= work_in_steps.STEP_ITEMS:
            self._replayed = None
            return entries, None
        if last is None or last[0] != version or last[1] != entries:
            topics = ReplayedTopics(version)
            for part in parts(entries, LIGHT):
                topics.add(part)
                yield
            last = self._replayed = version, entries, topics.end()
            yield
        return last[1:]

    def _max_wait_ms(self, demand: Demand, *, hurries: bool, now: float) -> int:
        """Return how many milliseconds the leader may wait for data where nothing is granted: what is left of the
        follower's max_wait_ms. If it `hurries`, because replicas were omitted, no longer than until this link's
        turn."""
        max_wait_ms = max(int((demand.deadline - now) * 1000), 0)
        if hurries:
            max_wait_ms = math.ceil(self._claim.hurry(max_wait_ms, now))
            self._claim.path.fetcher.due = now + max_wait_ms / 1000
        return min(max_wait_ms, demand.request.max_wait_ms)


def without_session(
    demand: Demand,
    left_out: tuple[Collection[PartitionKey], Collection[PartitionKey]],
    limits: tuple[Mapping[PartitionKey, int], Mapping[PartitionKey, int]],
    pending: PendingFetch,
    max_wait_ms: int,
) -> Steps[Forward]:
    """Forward a request outside of fetch sessions without what is in the first of `left_out` and not in the second.
    `limits`: the most bytes of what is asked for first, and of what is asked for last; never raised."""
    (left, but_for), (first, last) = left_out, limits
    entries = demand.request.entries
    kept: dict[PartitionKey, RequestEntry] = {}
    for part in parts(entries, LIGHT):  # of a partition that is listed twice the last entry counts
        kept.update({key: e for e in part if (key := (e.topic, e.partition)) not in left or key in but_for})
        if part is not entries:
            yield
    wanted = list(kept)
    heads = yield from collected(list(first), lambda part: [key for key in part if key in kept])
    tails = yield from collected(list(last), lambda part: [key for key in part if key in kept and key not in first])
    ends = (heads, first), (tails, last)
    as_it_came = not (left or wanted[: len(heads)] != heads or wanted[len(wanted) - len(tails) :] != tails) and all(
        most[key] >= kept[key].partition_max_bytes for keys, most in ends for key in keys
    )
    limited: list[tuple[RequestEntry, int]] = []
    if not as_it_came:
        if heads or tails:
            wanted = yield from collected(wanted, lambda part: [k for k in part if k not in first and k not in last])
        limited = yield from collected(
            heads, lambda part: [(e := kept[k], min(first[k], e.partition_max_bytes)) for k in part]
        )
        limited += yield from collected(wanted, lambda part: [(e := kept[k], e.partition_max_bytes) for k in part])
        limited += yield from collected(
            tails, lambda part: [(e := kept[k], min(last[k], e.partition_max_bytes)) for k in part]
        )
    kept.clear()
    yield from freed(wanted)
    return Forward(None, pending, None if as_it_came else _rebuilt(demand, pending, max_wait_ms, limited, None))


def in_session(demand: Demand, asks: Upstream[Asked], pending: PendingFetch, max_wait_ms: int) -> Forward:
    """Forward a request that belongs to a fetch session or opens one."""
    request = demand.request
    if asks.as_it_came and max_wait_ms >= request.max_wait_ms and _min_bytes(request, pending) == request.min_bytes:
        return Forward(None, pending)
    return Forward(None, pending, _rebuilt(demand, pending, max_wait_ms, [], asks))


def _min_bytes(request: FetchRequest, pending: PendingFetch) -> int:
    """Return for how many bytes the leader may wait. What is granted is there, but may be less than was asked for."""
    return min(request.min_bytes, 1) if pending.grants else request.min_bytes


def _rebuilt(
    demand: Demand,
    pending: PendingFetch,
    max_wait_ms: int,
    entries: list[tuple[RequestEntry, int]],
    asks: Upstream[Asked] | None,
) -> Steps[bytes]:
    """Build a frame that asks for other things than the follower's does: `entries` of that with the limit to write into
    each; or what `asks` says, in a fetch session. All of these are used up."""
    builder = FetchRequestBuilder(demand.frame, demand.request)
    for limited in parts(entries):
        builder.add_entries(limited)
        if limited is not entries:
            yield
    yield from freed(entries)
    if asks is not None:
        asked, forgotten = asks.listed, asks.forgotten
        for listed in parts(asked):
            builder.add_asked([Asked(entry.topic, entry.entry, limit_bytes) for _, entry, limit_bytes in listed])
            if listed is not asked:
                yield
        for keys in parts(forgotten, LIGHT) if forgotten else ():
            builder.add_forgotten(keys)
            if keys is not forgotten:
                yield
        for used in (asked, forgotten, demand.request.entries):
            yield from freed(used)
    min_bytes = _min_bytes(demand.request, pending)
    return builder.build(max_wait_ms=max_wait_ms, min_bytes=min_bytes, session=asks and asks[:2])
