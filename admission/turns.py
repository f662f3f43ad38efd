"""Turns are fairness between the connections that share one budget.

Least attained service first: of the connections that want throttled bytes, the one that has had the fewest goes next.
A connection is *away* while its fetch is at the leader, or is on its way to a follower in another region. It keeps its
place, but the others wait for it no longer than `GRACE_SECONDS`. That is less than the burst of the bucket, which goes
on filling meanwhile, so the wait costs no throughput. The bytes by which a connection has had less than the others are
its *deficit*. The others leave as many bytes in the bucket for it, and take only what the bucket has beyond them; there
is room for both, since a bucket holds more than a gate.

Pure; knows nothing of partitions (they take turns inside a connection, see `replica`) nor of bytes per second.
Invariant: between two connections that always want more, and of which each is back before the bucket is full, attained
service differs by at most one grant.
"""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from .fetcher import AWAY_SECONDS, GRACE_SECONDS
from .simple_rate import SimpleRate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .fetcher import Fetcher

FIRST_SHARE = 0.95
"""The share of a budget that goes to the connections of the greatest priority, while they want bytes. Of the rest, the
same share goes to those of the next priority, and so on; the least have what is left. So no connection starves, and the
replicas in greatest need have caught up before the others have moved a tenth of as many bytes."""

ROLE = ("role", "")
"""The entity of the root."""


class Want(enum.Enum):
    """A connection's demand on one budget."""

    NOTHING = "all that it wished for is granted, or it wishes for nothing"
    BYTES = "it wants bytes: others that had more wait for it"
    BYTES_ELSEWHERE_FIRST = "it wants bytes, but another of its budgets has none for it: no claim here waits for it"


class Claim:
    """The place of one connection in one budget's line, and the bytes that it has had there."""

    __slots__ = ("asked_at", "attained_service", "budget", "charged_early_bytes", "expected_bytes", "fetcher", "want",
                 "weight")  # fmt: skip

    def __init__(self, budget: BudgetNode, fetcher: Fetcher) -> None:
        self.budget = budget
        self.fetcher = fetcher
        self.want = Want.NOTHING
        self.asked_at = -math.inf
        self.attained_service = 0.0
        """Bytes that it has had here, each counted by the `weight` of its time."""
        self.weight = 1.0
        """What each byte granted to it adds to `attained_service`: the greater its priority, the less."""
        self.expected_bytes = 0.0
        """Bytes that were granted and count as part of the burst until they are settled. Grants of a connection that is
        not trusted to answer in time are not among them."""
        self.charged_early_bytes = 0
        """Bytes that were charged when they began to go on, and are not settled yet; only under `kip73`."""

    def release_turn(self, now: float) -> None:
        """Let no claim here wait for it, and nothing be kept for it: another budget has nothing for it now. Its
        attained service stays as it is: a connection that has had little is early in the line when it asks again."""
        self.want, self.asked_at = Want.BYTES_ELSEWHERE_FIRST, now

    def return_seconds(self, now: float) -> float:
        """Return the seconds until it asks here again at the earliest; inf if it is not waited for."""
        if self.want is Want.BYTES_ELSEWHERE_FIRST or now - self.asked_at > AWAY_SECONDS:
            return math.inf
        return self.fetcher.return_seconds(now)

    def settle(self, reserved: float, used: float) -> float:
        """Account for `reserved` bytes of a grant of which `used` came. Return how many of them were expected."""
        most = self.expected_bytes
        expected = reserved if reserved < most else most
        self.expected_bytes = most - expected
        self.attained_service += (used - reserved) * self.weight
        return expected


class Turns:
    """The claims of all connections in one budget."""

    __slots__ = ("_claims", "_last_grant_bytes", "_level", "has_priorities", "is_one")

    def __init__(self) -> None:
        self._claims: list[Claim] = []
        self._level = 0.0
        """The most that any claim had attained when it was served, so it only grows."""
        self._last_grant_bytes = 0.0
        self.has_priorities = False
        """True if some claim has a priority above 0."""
        self.is_one = True
        """True if there is at most one claim: no other goes before it, and nothing is kept for another."""

    def join(self, claim: Claim) -> None:
        self._claims.append(claim)
        self.is_one = len(self._claims) < 2
        self.has_priorities = self.has_priorities or bool(claim.fetcher.priority)

    def leave(self, claim: Claim) -> None:
        self._claims.remove(claim)
        self.is_one = len(self._claims) < 2
        if claim.fetcher.priority:
            self.look_again()

    def look_again(self) -> None:
        """Refresh what is known of the claims: a connection came, went, or has another priority."""
        self.is_one = len(self._claims) < 2
        self.has_priorities = any(claim.fetcher.priority for claim in self._claims)

    def _weight(self, claim: Claim) -> float:
        """Return how much a byte of `claim` weighs. The connections of one priority have `FIRST_SHARE` of what they and
        all of less have together, and among themselves equal parts. A byte of a connection that may have n times as
        many as one of the least priority weighs 1/n."""
        waiting: dict[int, int] = {}
        for each in self._claims:
            if each.want is Want.BYTES or each is claim:
                waiting[each.fetcher.priority] = waiting.get(each.fetcher.priority, 0) + 1
        below = share = 0.0
        for priority in sorted(waiting):
            share = below * FIRST_SHARE / (1 - FIRST_SHARE) if below else float(waiting[priority])
            if priority == claim.fetcher.priority:
                break
            below += share
        return waiting[claim.fetcher.priority] / share

    def reset_service(self) -> None:
        """Make all connections start level: the rate was lowered, and one grant at the old rate may be worth seconds at
        the new one. Those that had less must not catch up on that."""
        self._level = max([self._level, *(claim.attained_service for claim in self._claims)])
        self._last_grant_bytes = 0.0
        for claim in self._claims:
            claim.attained_service = self._level
            claim.asked_at = -math.inf  # nothing was kept for it at this rate

    def ask(self, claim: Claim, now: float, *, max_deficit: float = 0.0) -> None:
        """Note that `claim` wants bytes.

        A connection that has wanted none for long starts level with those that wait or were served. One that has been
        waiting counts as behind by at most one grant. One that asked lately may count as behind by up to `max_deficit`,
        since the others have kept these bytes for it in the bucket; it cannot catch up on bytes that were not kept.
        """
        if now - claim.asked_at <= AWAY_SECONDS:
            last, most = self._last_grant_bytes, claim.fetcher.max_deficit
            deficit = last if last > max_deficit else max_deficit
            level = self._level - (deficit if deficit < most else most)
        elif claim.want is Want.BYTES:
            level = self._level - self._last_grant_bytes
        elif self.is_one:
            level = self._level
        else:
            waiting = [other.attained_service for other in self._claims if other.want is Want.BYTES]
            level = max(self._level, min(waiting, default=0.0))
        if level > claim.attained_service:
            claim.attained_service = level
        claim.want, claim.asked_at = Want.BYTES, now

    def kept_from(self, claim: Claim, rate: float, now: float) -> float:
        """Return how many bytes are to be kept from `claim`: for each connection that has had less and is expected
        back, the difference, but for what comes into the bucket at `rate` until that connection is back."""
        attained, kept = claim.attained_service, 0.0
        for other in self._claims:
            deficit = attained - other.attained_service
            if deficit > 0:
                kept += max(deficit - rate * other.return_seconds(now), 0.0)
        return kept

    def serve(self, claim: Claim, size: float) -> float:
        """Grant `claim` `size` bytes; return how many of them are expected in time."""
        if claim.attained_service > self._level:
            self._level = claim.attained_service
        claim.weight = self._weight(claim) if self.has_priorities else 1.0
        claim.attained_service += size * claim.weight
        self._last_grant_bytes = size
        expected = size if claim.fetcher.is_trusted else 0.0
        claim.expected_bytes += expected
        return expected

    def give_up_overdue(self, now: float) -> float:
        """Return the bytes that were expected of answers which are overdue by now."""
        given = 0.0
        for claim in self._claims:
            if claim.expected_bytes and claim.fetcher.is_overdue(now):
                given += claim.expected_bytes
                claim.expected_bytes = 0.0
        return given

    def ahead_of(self, claim: Claim, now: float, *, of_equals: bool = False) -> int:
        """Return how many connections go first: less served, and here or expected any moment. `of_equals`: those of
        greater priority are not counted."""
        return sum(
            1
            for other in self._less_served(claim)
            if abs(other.fetcher.due - now) <= GRACE_SECONDS
            and not (of_equals and other.fetcher.priority > claim.fetcher.priority)
        )

    def yields(self, claim: Claim) -> bool:
        """Return whether a connection of greater priority goes before `claim`: it is left all but what it cannot
        use."""
        return self.has_priorities and any(
            other.fetcher.priority > claim.fetcher.priority for other in self._less_served(claim)
        )

    def rank(self, claim: Claim, now: float) -> int:
        """Return how many connections that want bytes were served less and are here, or expected some time."""
        least = now - GRACE_SECONDS
        return sum(
            1
            for other in self._less_served(claim)
            if other.fetcher.due >= least and not other.fetcher.rests_until > now
        )

    def others_want(self, claim: Claim) -> bool:
        """Return whether any other connection wants bytes."""
        return any(other.want is Want.BYTES for other in self._claims if other is not claim)

    def _less_served(self, claim: Claim) -> Iterator[Claim]:
        attained = claim.attained_service
        return (
            other
            for other in self._claims
            if other.want is Want.BYTES and other.attained_service < attained and other.fetcher.is_waited_for
        )


class BudgetNode(ABC):
    """A rate that all connections share which it concerns. `budget_path.BudgetPath` asks each node on a connection's
    way."""

    burst_bytes: float = math.inf
    """The most that it lets through at once; inf if nothing bounds that."""

    def __init__(self, bytes_per_second: float, samples: int, sample_seconds: float, entity: tuple[str, str]) -> None:
        self.entity = entity
        """The kind (role, rack, peer, topic) and the name of what has this rate."""
        self.bytes_per_second = bytes_per_second
        self.turns = Turns()
        self.rate = SimpleRate(samples=samples, sample_seconds=sample_seconds)
        """The rate at which bytes passed, over KIP-73's window."""
        self.passed_bytes = 0
        """The bytes of throttled replicas, in sync or not, that have passed since this began."""

    def count_passed(self, size: int, now: float) -> None:
        """Count `size` bytes that passed under this rate, whatever paid for them."""
        self.passed_bytes += size
        self.rate.record(size, now)

    def state(self, now: float) -> float | None:
        """Return what another process is to `restore` when it takes over: how many bytes are left, negative in debt.
        None: nothing bounds them, or the policy counts in another way."""
        del now
        return None

    def restore(self, state: float | None, now: float) -> None:  # noqa: B027 - not every policy has a state
        """Begin with no more than the other process has left, so that both together keep to the rate."""

    def join(self, fetcher: Fetcher) -> Claim:
        """Give a connection a place in line."""
        claim = Claim(self, fetcher)
        self.turns.join(claim)
        return claim

    @abstractmethod
    def change_rate(self, bytes_per_second: float, now: float) -> None:
        """Change the quota; inf is unlimited, 0 stops catch-up."""

    @abstractmethod
    def room(self, claim: Claim, now: float, *, rides: bool = False) -> float:
        """Return how many bytes may be granted now: 0 for none, inf for as many as are wished for. The claim counts as
        asking for them.

        `rides`: the fetch is forwarded in any case, for replicas in sync. Their records come in the same answer and
        should not have to wait for many others, so the grant is small.
        """

    @abstractmethod
    def is_ample(self, claim: Claim, now: float) -> bool:
        """Return True if more will come in during the claim's next two fetches than can be kept: what it is not granted
        now may be lost."""

    @abstractmethod
    def reserve(self, claim: Claim, granted: int, now: float) -> None:
        """Reserve `granted` bytes of the room, to be settled."""

    @abstractmethod
    def seconds_until_turn(self, claim: Claim, now: float) -> float:
        """Return when it is worth asking again; inf if never at this rate."""

    @abstractmethod
    def is_shut(self, now: float, *, rides: bool = False) -> bool:
        """Return True if there is no room for any connection now; `rides`: see `room`."""

    @abstractmethod
    def has_spare(self, now: float) -> bool:
        """Return True if so much is left that the connections of the greatest priority cannot use all of it."""

    @abstractmethod
    def settle(self, claim: Claim, *, reserved: int, used: int, now: float) -> None:
        """Settle a grant of `reserved` bytes that moved `used`; 0 reserved for traffic that needs no grant."""

    @abstractmethod
    def must_discard(self, admitted_at: float, now: float) -> bool:
        """Return True if records that were asked for at `admitted_at` are over quota by now (KIP-73's leader side)."""

    def change_gate(self, gate_seconds: float, now: float) -> None:  # noqa: B027 - not every policy has portions
        """Grant in portions worth so long at the quota from now on, where the policy has portions."""

    def charge_on_send(self, claim: Claim, size: int, now: float) -> None:  # noqa: B027 - `StrictBudget` has reserved
        """Charge records of `size` bytes that are about to go on; they are settled when they have gone.

        A connection may leave it out: then they count when they are settled. No-op where what is granted is reserved
        already.
        """
