"""Shares are fairness between the connections of one budget: each byte that the budget gains belongs to one of them.

What a bucket holds beyond its gate is divided among the connections that use what they are granted: each has a
*credit*, and all credits together are what is there. What comes in is shared out by weight; a connection whose credit
is as much as it could use at once leaves its part to the others (max-min). A grant is taken from the credit, which may
become negative, and what it did not bring goes back. So a connection that is away, on its way to another region or held
by another of its budgets, finds its part when it is back; and whose grants bring nothing has no part, however often it
asks. Nobody waits for anybody: what is another's credit stays in the bucket, but for what comes in until that one is
back, and for the last gate of a full bucket, which would be lost.

Pure; knows nothing of partitions (they take turns inside a connection, see `replica`) nor of time but by arguments.
Invariant: `divide` leaves credits that together are what it was given, as far as some connection can use it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from .fetcher import Request
from .simple_rate import SimpleRate
from .token_bucket import MIN_GATE_BYTES

if TYPE_CHECKING:
    from .fetcher import Fetcher

FIRST_SHARE = 0.95
"""The share of a budget that goes to the connections of the greatest priority, while they want bytes. Of the rest, the
same share goes to those of the next priority, and so on; the least have what is left. So no connection starves, and the
replicas in greatest need have caught up before the others have moved a tenth of as many bytes."""

LOOKS_PER_GATE = 2
"""The number of times that all connections of a budget together look whether they have a turn while a gate comes in. A
look is a fetch where some of a connection's replicas are in sync. When each looked by itself, 64 connections made 910
fetches a second at 8 MiB/s, which took a whole core; with two looks 310, and no connection has less."""

ROLE = ("role", "")
"""The entity of the root."""


class Claim:
    """The part of one connection in one budget."""

    __slots__ = (
        "budget",
        "charged_early_bytes",
        "credit",
        "elsewhere_until",
        "expected_bytes",
        "fetcher",
        "reserved_bytes",
        "wants",
        "weight",
    )

    def __init__(self, budget: BudgetNode, fetcher: Fetcher) -> None:
        self.budget = budget
        self.fetcher = fetcher
        self.wants = False
        """True if more is wished for here than is granted."""
        self.credit = 0.0
        """The bytes of what the budget holds that are this connection's; negative while it has had more than its
        part."""
        self.weight = 1.0
        self.elsewhere_until = -math.inf
        """The time at which the connection's other budgets may grant it something again."""
        self.reserved_bytes = 0.0
        """Bytes of its grants that are not settled yet."""
        self.expected_bytes = 0.0
        """Bytes that were granted and count as part of the burst until they are settled. Grants of a connection that is
        not trusted to answer in time are not among them."""
        self.charged_early_bytes = 0
        """Bytes that were charged when they began to go on, and are not settled yet; only under `kip73`."""

    def most_credit(self, most: float) -> float:
        """Return the most credit that it may have where none may have more than `most`: as much as it can use at
        once."""
        own = self.fetcher.max_credit
        return own if own < most else most


class Shares:
    """The claims of all connections in one budget."""

    __slots__ = ("_claims", "count", "has_priorities", "is_one")

    def __init__(self) -> None:
        self._claims: list[Claim] = []
        self.has_priorities = False
        """True if some claim has a priority above 0."""
        self.is_one = True
        """True if there is at most one claim: all that is there is its own."""
        self.count = 1
        """The number of connections that use what they are granted, as of late."""

    def __len__(self) -> int:
        return len(self._claims)

    def join(self, claim: Claim) -> None:
        self._claims.append(claim)
        self.look_again()

    def leave(self, claim: Claim) -> None:
        self._claims.remove(claim)
        self.look_again()

    def look_again(self) -> None:
        """Refresh what is known of the claims: a connection came, went, or has another priority."""
        self.is_one = len(self._claims) < 2
        if self.is_one:
            self.count = 1
        self.has_priorities = any(claim.fetcher.priority for claim in self._claims)
        for claim in self._claims:
            claim.weight = 1.0

    def reset(self) -> None:
        """Make all connections start level: the rate was lowered, and one grant at the old rate may be worth seconds at
        the new one. Those that had less must not catch up on that."""
        for claim in self._claims:
            claim.credit = 0.0

    def divide(self, size: float, most: float, now: float) -> None:
        """Make the credits of all that use their grants `size` bytes together, each at most `most`. What is too little
        or too much is taken from all, or given to those that can use it, by their weights."""
        using: list[Claim] = []
        total = 0.0
        for claim in self._claims:
            if claim.wants and claim.fetcher.is_expected(now):
                using.append(claim)
                claim.credit = min(claim.credit, claim.most_credit(most))
                total += claim.credit
            elif claim.credit > 0.0:
                claim.credit = 0.0
        self.count = sum(claim.fetcher.max_credit > 0.0 for claim in using) or 1
        if self.has_priorities:
            self._weigh(using)
        if size < total:
            weight = sum(claim.weight for claim in using)
            for claim in using:
                claim.credit -= (total - size) * claim.weight / weight
        else:
            _share_out(size - total, using, most)

    def kept_from(self, claim: Claim, rate: float, now: float) -> tuple[float, float]:
        """Return how many bytes are to be kept from `claim`: the credit of each other connection, but for what comes
        into the bucket at `rate` until that one is back. First of those that go before it, which have a greater
        priority or credit, or any while it has had more than its part; then of all."""
        before = kept = 0.0
        for other in self._claims:
            if other.credit > 0.0 and other is not claim:
                seconds = max(other.fetcher.return_seconds(now), other.elsewhere_until - now)
                size = other.credit - rate * seconds
                if size > 0.0:
                    kept += size
                    if goes_before(other, claim):
                        before += size
        return before, kept

    def inflow_until(self, claim: Claim, missing: float, least: float, most: float, now: float) -> float:
        """Return how many bytes have to come in until `claim` has a turn: until `missing` more are there beside what
        is kept for those that go before it, or until its own credit is `least`. Credits are `most` at most."""
        sharing = [
            each
            for each in self._claims
            if each is claim or (each.wants and each.fetcher.is_expected(now) and each.credit < each.most_credit(most))
        ]
        weight = sum(each.weight for each in sharing)
        before = sorted(
            (max(-each.credit * weight / each.weight, 0.0), each.weight / weight)
            for each in sharing
            if each is not claim and goes_before(each, claim)
        )
        inflow, rest = 0.0, 1.0
        for begins, part in before:
            if missing <= (begins - inflow) * rest:
                break
            missing -= (begins - inflow) * rest
            inflow, rest = begins, rest - part
        return min(inflow + missing / rest, max(least - claim.credit, 0.0) * weight / claim.weight)

    def inflow_until_look(self, claim: Claim, least: float, gate: float, now: float) -> float:
        """Return how many bytes come in before `claim` looks whether it has a turn: until all others have looked once,
        or its own credit is `least`. Others may leave it their turns at any moment, so all look again and again; but
        `LOOKS_PER_GATE` times while a gate comes in, however many there are."""
        count, weight = 0, 0.0
        for each in self._claims:
            if each.wants and each.fetcher.request is not Request.AWAY and each.fetcher.is_expected(now):
                count += 1
                weight += each.weight
        return min(max(least - claim.credit, 0.0) * weight / claim.weight, (count - 1) * gate / LOOKS_PER_GATE)

    def _weigh(self, using: list[Claim]) -> None:
        """Weigh the connections. Those of one priority have `FIRST_SHARE` of what they and all of less have together,
        and among themselves equal parts."""
        count: dict[int, int] = {}
        for claim in using:
            count[claim.fetcher.priority] = count.get(claim.fetcher.priority, 0) + 1
        below, weights = 0.0, {}
        for priority in sorted(count):
            share = below * FIRST_SHARE / (1 - FIRST_SHARE) if below else float(count[priority])
            weights[priority] = share / count[priority]
            below += share
        for claim in using:
            claim.weight = weights[claim.fetcher.priority]

    def give_up_overdue(self, now: float) -> float:
        """Return the bytes that were expected of answers which are overdue by now."""
        given = 0.0
        for claim in self._claims:
            if claim.expected_bytes and claim.fetcher.is_overdue(now):
                given += claim.expected_bytes
                claim.expected_bytes = 0.0
        return given


def _share_out(size: float, using: list[Claim], most: float) -> None:
    """Add `size` bytes to the credits by weight; what one cannot use the others have."""
    while using and size > 0.0:
        weight = sum(claim.weight for claim in using)
        left: list[Claim] = []
        given = 0.0
        for claim in using:
            part, can = size * claim.weight / weight, max(claim.most_credit(most) - claim.credit, 0.0)
            if part < can:
                left.append(claim)
            given += min(part, can)
            claim.credit += min(part, can)
        if len(left) == len(using):
            return
        size -= given
        using = left


def goes_before(other: Claim, claim: Claim) -> bool:
    """Return whether `other`, which has a credit or will have one, has a turn before `claim`."""
    own, first = other.fetcher.priority, claim.fetcher.priority
    return claim.credit < 0.0 or own > first or (own == first and other.credit > claim.credit)


class BudgetNode(ABC):
    """A rate that all connections share which it concerns. `budget_path.BudgetPath` asks each node on a connection's
    way."""

    gate_bytes: float = math.inf
    """The bytes that are there before anything is granted."""
    burst_bytes: float = math.inf
    """The most that it lets through at once; inf if nothing bounds that."""

    def __init__(self, bytes_per_second: float, samples: int, sample_seconds: float, entity: tuple[str, str]) -> None:
        self.entity = entity
        """The kind (role, rack, peer, topic) and the name of what has this rate."""
        self.bytes_per_second = bytes_per_second
        self.shares = Shares()
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

    def part_at_once(self, away_seconds: float) -> float:
        """Return the most bytes that one of its connections, which is away for so long with a fetch, can have at once:
        its part of the burst, and no more than two gates beside what comes in meanwhile."""
        part = max(2 * self.burst_bytes / len(self.shares), MIN_GATE_BYTES)
        return min(part, 2 * self.gate_bytes + self.bytes_per_second * away_seconds)

    def join(self, fetcher: Fetcher) -> Claim:
        """Give a connection a place in line."""
        claim = Claim(self, fetcher)
        self.shares.join(claim)
        return claim

    @abstractmethod
    def change_rate(self, bytes_per_second: float, now: float) -> None:
        """Change the quota; inf is unlimited, 0 stops catch-up."""

    @abstractmethod
    def room(self, claim: Claim, now: float, *, beside_in_sync: bool = False, most: float = math.inf) -> float:
        """Return how many bytes may be granted now: 0 for none, inf for as many as are wished for. The claim counts as
        asking for them.

        `most`: what can be used at all, because of other budgets or of the wishes: so much is enough to go on.

        `beside_in_sync`: the fetch is forwarded in any case, for replicas in sync. Their records come in the same
        answer and should not have to wait for many others, so the grant is small.
        """

    @abstractmethod
    def is_ample(self, claim: Claim, now: float) -> bool:
        """Return True if more will come in during the claim's next two fetches than can be kept: what it is not granted
        now may be lost."""

    @abstractmethod
    def reserve(self, claim: Claim, granted: int, now: float) -> None:
        """Reserve `granted` bytes of the room, to be settled."""

    @abstractmethod
    def seconds_until_turn(self, claim: Claim, now: float, *, most: float = math.inf) -> float:
        """Return when it is worth asking again; inf if never at this rate."""

    @abstractmethod
    def is_shut(self, now: float, *, beside_in_sync: bool = False) -> bool:
        """Return True if there is no room for any connection now; `beside_in_sync`: see `room`."""

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
