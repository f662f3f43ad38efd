"""Whose turn it is: fairness between the connections that share one role's budget.

Least attained service first: of the connections that want throttled bytes, the one that has had the fewest goes next.
A connection is *away* while its fetch waits at the broker, or is on its way to a follower in another region. It keeps
its place, but the others wait for it no longer than `GRACE_SECONDS`. That is less than the burst of the bucket, which
goes on filling meanwhile, so the wait costs no throughput. The bytes by which a connection has had less than the others
are its *arrears*. The others leave as many bytes in the bucket for it, and take only what the bucket has beyond them;
there is room for both, since a bucket holds more than a gate.

Pure; knows nothing of partitions (they take turns inside a connection, see `replica`) nor of bytes per second.
Invariant: between two connections that always want more, and of which each is back before the bucket is full, attained
bytes differ by at most one grant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

GRACE_SECONDS = 0.05
"""Half a default gate. Even on a busy host an answer and the follower's next request together take less. And a default
bucket that has just opened goes on filling for longer than this before it is full (150 ms: its burst less its gate)."""

AWAY_SECONDS = 1.0
"""A connection's arrears are kept for so long after it last asked. By then it is back even from a fetch that waited at
its leader for max_wait_ms (500 ms by default), and from a region that is 240 ms away."""
ABSENCE_GROWTH = 1.25

LATE_SECONDS = 0.1
"""An answer that takes longer is late. A leader that has data answers within a few milliseconds, and within this time
if it is in another region."""
OVERDUE_SECONDS = 0.2
"""A grant that a leader has not answered for so long no longer counts as part of the burst. Otherwise two leaders that
are gone, or that allow nothing themselves, would hold all of the burst."""
DISTRUST_SECONDS = 10.0
"""For so long after a grant that was answered late, or with nothing, the next ones are expected to end like that."""
REST_SECONDS = 0.12
"""A little more than a default gate: after it, a sidecar or a quota at the other end may let the next grant pass. The
bucket does not fill up in that time."""
LEAST_REST_SECONDS, MOST_REST_SECONDS = 0.015, 2.0
"""How long a connection rests if its grants bring nothing again and again while others want bytes: each time twice as
long, until a grant brings something. `LATE_SECONDS` does not find such a connection: its requests go on in any case,
for partitions in sync, and are answered in time. Without a rest, a connection to a leader at quota 0 held all of the
burst all the time, and the other leaders sent nothing."""
APPETITE_GROWTH = 4
"""After a late answer a connection is granted at most so many times what that answer brought. So it is back at a burst
within a few fetches, once its leader brings more."""
LEAST_APPETITE_BYTES = 64 * 1024

FIRST_SHARE = 0.95
"""The share of a budget that goes to the connections of the greatest urgency, while they want bytes. Of the rest, the
same share goes to those of the next urgency, and so on; the least urgent have what is left. So no connection starves,
and the replicas in greatest need have caught up before the others have moved a tenth of as many bytes."""


@dataclass(slots=True, eq=False)
class Claim:
    """One connection's place in the line."""

    attained_bytes: float = 0.0
    wants: bool = False
    due: float = 0.0
    """When this connection is expected to ask again."""
    asked_at: float = -math.inf
    absence_seconds: float = 0.0
    """How soon it may be back from a fetch: the shortest of the last times that it was away, forgotten slowly."""
    is_held: bool = False
    """Its request waits here, so it is not away."""
    appetite_bytes: float = math.inf
    """The most bytes that it is granted at once. That is little while its grants come back late and mostly unused,
    since other connections had to do without those bytes. The leader of such a connection throttles too, by the
    broker's own quota or by its own sidecar."""
    most_riding_bytes: float = math.inf
    """The most that it is granted at once beside records of replicas in sync, which wait for it."""
    expected_bytes: float = 0.0
    """Bytes that were granted and count as part of the burst until they are settled. Grants of a connection that is not
    trusted to answer in time are not among them."""
    begun_bytes: int = 0
    """Bytes that counted when they began to go on, and are not settled yet; only under `kip73`."""
    _distrusted_until: float = -math.inf
    _granted_at: float = -math.inf
    _granted_bytes: float = 0.0
    _brought_bytes: float = 0.0
    _uses_grants: bool = True
    """At least half of the last grant but one came; the last grant may still be on its way."""
    most_arrears_bytes: float = math.inf
    """The most arrears that are kept for it. This is little if another of its budgets lets it have only little, since
    it could not use more."""
    urgency: int = 0
    """A connection of greater urgency goes before others, but for their share (`FIRST_SHARE`)."""
    charge: float = 1.0
    """How much each byte granted to it adds to `attained_bytes`: the more urgent the connection, the less."""
    _away: bool = False
    _stands_back: bool = False
    """It wants bytes, and another budget that it needs them of has none for it."""
    rests_until: float = -math.inf
    """It is granted nothing before."""
    _next_rest_seconds: float = LEAST_REST_SECONDS

    def rest(self, now: float) -> None:
        """Grant it nothing for a while: its grants were answered at once, with nothing."""
        self.rests_until = now + REST_SECONDS

    def rest_longer(self, now: float) -> None:
        """The same of one whose grants bring nothing again and again: each time twice as long."""
        self.rests_until = now + self._next_rest_seconds
        self._next_rest_seconds = min(2 * self._next_rest_seconds, MOST_REST_SECONDS)

    def rests_seconds(self, now: float) -> float:
        return max(self.rests_until - now, 0.0)

    @property
    def keeps_place(self) -> bool:
        """Whether others wait for it although it is away. They do not if it may be away for long, and for nothing."""
        return not self._away or math.isinf(self.appetite_bytes) or self._uses_grants

    def ask(self, now: float) -> None:
        if not self.is_held:
            absence, longest = now - self.asked_at, ABSENCE_GROWTH * self.absence_seconds
            if longest < GRACE_SECONDS:
                longest = GRACE_SECONDS
            self.absence_seconds = absence if absence < longest else longest
        self.wants, self._away, self.asked_at, self.is_held = True, False, now, False
        self._stands_back = False

    def stand_back(self, now: float) -> None:
        """Another budget has nothing for it now, so here nobody waits for it and nothing is kept for it. Its attained
        bytes stay as they are: a connection that has had little is early in the line when it asks again."""
        self.wants, self._stands_back, self.asked_at = False, True, now

    def due_seconds(self, now: float) -> float:
        """Return how long it stays away at least; inf if it is not waited for."""
        if self._stands_back or not self.keeps_place or now - self.asked_at > AWAY_SECONDS or self.rests_seconds(now):
            return math.inf
        return 0.0 if self.is_held else max(self.asked_at + self.absence_seconds - now, 0.0)

    def settle(self, *, reserved: float, used: float, now: float) -> float:
        """Of a grant `reserved` bytes are accounted for: `used` came. Return how many of them were expected."""
        most = self.expected_bytes
        expected = reserved if reserved < most else most
        self.expected_bytes = most - expected
        self.attained_bytes += (used - reserved) * self.charge
        self._brought_bytes = brought = self._brought_bytes + used
        if used:
            self._next_rest_seconds = LEAST_REST_SECONDS
        late = now - self._granted_at > LATE_SECONDS
        if late or not brought:
            self._distrusted_until = now + DISTRUST_SECONDS
        self.appetite_bytes = max(APPETITE_GROWTH * brought, LEAST_APPETITE_BYTES) if late else math.inf
        return expected

    def serve(self, size: float, now: float) -> float:
        """`size` bytes are granted. Return how many of them are expected in time: all, unless its grants were late or
        brought nothing lately."""
        self.attained_bytes += size * self.charge
        expected = size if now >= self._distrusted_until else 0.0
        self.expected_bytes += expected
        self._granted_at = now
        self._uses_grants = self._brought_bytes >= self._granted_bytes / 2
        self._granted_bytes, self._brought_bytes = size, 0.0
        self._away = True
        return expected

    def give_up(self, now: float) -> float:
        """Return what was expected of an answer that is overdue by now."""
        if now - self._granted_at <= OVERDUE_SECONDS:
            return 0.0
        given, self.expected_bytes = self.expected_bytes, 0.0
        return given


class Turns:
    """The claims of all connections of one role."""

    __slots__ = ("_claims", "_last_grant_bytes", "_level_bytes", "is_one", "urgent")

    def __init__(self) -> None:
        self._claims: list[Claim] = []
        self._level_bytes = 0.0
        """What the claims had attained when they were served: the most of them, so it only grows."""
        self._last_grant_bytes = 0.0
        self.urgent = 0
        """How many claims are of some urgency; without any all are alike."""
        self.is_one = True
        """There are no two claims: nobody goes before another, and nothing is kept for anybody."""

    def join(self) -> Claim:
        claim = Claim()
        self._claims.append(claim)
        self.is_one = len(self._claims) < 2
        return claim

    def leave(self, claim: Claim) -> None:
        self._claims.remove(claim)
        self.is_one = len(self._claims) < 2
        self.urgent -= claim.urgency > 0
        claim.urgency = 0

    def place(self, claim: Claim, urgency: int) -> None:
        """What `claim` wants is of this urgency from now on."""
        if urgency != claim.urgency:
            self.urgent += (urgency > 0) - (claim.urgency > 0)
            claim.urgency = urgency

    def _charge(self, claim: Claim) -> float:
        """The connections of one urgency have `FIRST_SHARE` of what they and all less urgent ones have together, and
        among themselves equal parts. A connection that may have n times as many bytes as one of the least urgency is
        charged a part 1/n of each byte."""
        waiting: dict[int, int] = {}
        for each in self._claims:
            if each.wants or each is claim:
                waiting[each.urgency] = waiting.get(each.urgency, 0) + 1
        below = share = 0.0
        for urgency in sorted(waiting):
            share = below * FIRST_SHARE / (1 - FIRST_SHARE) if below else float(waiting[urgency])
            if urgency == claim.urgency:
                break
            below += share
        return waiting[claim.urgency] / share

    def level(self) -> None:
        """The rate was lowered, and one grant at the old rate may be worth seconds at the new one. The connections that
        had less must not catch up on that, so all of them start level."""
        self._level_bytes = max([self._level_bytes, *(claim.attained_bytes for claim in self._claims)])
        self._last_grant_bytes = 0.0
        for claim in self._claims:
            claim.attained_bytes = self._level_bytes
            claim.asked_at = -math.inf  # nothing was kept for it at this rate

    def ask(self, claim: Claim, now: float, *, most_arrears_bytes: float = 0.0) -> None:
        """`claim` wants bytes. A connection that has wanted none for long starts level with those that wait or were
        served. One that has been waiting counts as behind by at most one grant. One that asked lately may count as
        behind by up to `most_arrears_bytes`, since the others have kept these for it in the bucket; it cannot catch up
        on bytes that nobody kept."""
        if now - claim.asked_at <= AWAY_SECONDS:
            last, most = self._last_grant_bytes, claim.most_arrears_bytes
            arrears_bytes = last if last > most_arrears_bytes else most_arrears_bytes
            level_bytes = self._level_bytes - (arrears_bytes if arrears_bytes < most else most)
        elif claim.wants:
            level_bytes = self._level_bytes - self._last_grant_bytes
        elif self.is_one:
            level_bytes = self._level_bytes
        else:
            waiting = [other.attained_bytes for other in self._claims if other.wants]
            level_bytes = max(self._level_bytes, min(waiting, default=0.0))
        if level_bytes > claim.attained_bytes:
            claim.attained_bytes = level_bytes
        claim.ask(now)

    def kept_from(self, claim: Claim, rate: float, now: float) -> float:
        """Return how many bytes are to be kept from `claim`: for each connection that has had less and is expected
        back, the difference, but for what comes into the bucket at `rate` until that connection is back."""
        attained_bytes, kept = claim.attained_bytes, 0.0
        for other in self._claims:
            arrears = attained_bytes - other.attained_bytes
            if arrears > 0:
                kept += max(arrears - rate * other.due_seconds(now), 0.0)
        return kept

    def serve(self, claim: Claim, size: float, now: float) -> float:
        """`claim` is granted `size` bytes; return how many of them are expected in time."""
        if claim.attained_bytes > self._level_bytes:
            self._level_bytes = claim.attained_bytes
        claim.charge = self._charge(claim) if self.urgent else 1.0
        self._last_grant_bytes = size
        return claim.serve(size, now)

    def give_up_overdue(self, now: float) -> float:
        """Return the bytes that were expected of answers which are overdue by now."""
        return sum(claim.give_up(now) for claim in self._claims)

    def ahead_of(self, claim: Claim, now: float, *, of_equals: bool = False) -> int:
        """Return how many connections go first: less served, and here or expected any moment. `of_equals`: those of
        greater urgency are not counted."""
        return sum(
            1
            for other in self._less_served(claim)
            if abs(other.due - now) <= GRACE_SECONDS and not (of_equals and other.urgency > claim.urgency)
        )

    def yields(self, claim: Claim) -> bool:
        """Whether a connection of greater urgency goes before `claim`: it is left all but what it cannot use."""
        return self.urgent > 0 and any(other.urgency > claim.urgency for other in self._less_served(claim))

    def rank(self, claim: Claim, now: float) -> int:
        """Return how many connections that want bytes were served less and are here, or expected some time."""
        least = now - GRACE_SECONDS
        return sum(1 for other in self._less_served(claim) if other.due >= least and not other.rests_seconds(now))

    def others_want(self, claim: Claim) -> bool:
        """Whether any other connection wants bytes."""
        return any(other.wants for other in self._claims if other is not claim)

    def _less_served(self, claim: Claim) -> Iterator[Claim]:
        attained_bytes = claim.attained_bytes
        return (c for c in self._claims if c.wants and c.attained_bytes < attained_bytes and c.keeps_place)
