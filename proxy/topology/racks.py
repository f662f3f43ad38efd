"""Keeps the rack of each broker, as far as a broker has told, and counts bytes that go between racks.

A broker says which racks there are (`cluster.questions`); rates of racks (`budget_tree`) and the count of bytes
between racks use it. Shared by both roles, since it is the same cluster. Pure.

Invariant: a broker of unknown rack is bounded by no rack's rate, and nothing counts as going between its
rack and another; a broker's rack is remembered while the broker is away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ..quotas.finer_rates import FinerRates
    from ..statistics.counters import RoleStatistics

MAX_NAMED = 5
"""The most brokers or racks that a message names; the others are counted."""
MAX_BROKERS = 10_000
"""The most brokers whose rack is remembered; no Kafka cluster is known that has more."""


class Racks:
    """The racks of a process. `own`: the id of the broker beside it."""

    def __init__(self, own: int | None = None) -> None:
        self._own = str(own)
        self._of: dict[str, str] = {}
        """The rack by broker id, as peers are called; empty: in none."""
        self.generation = 0
        """A number that changes whenever a rack does."""

    def of(self, peer: str) -> str | None:
        """Return the rack of a broker, empty if it is in none; None: unknown."""
        return self._of.get(peer)

    @property
    def own(self) -> str:
        """The rack of the broker beside us; empty if it is in none, or unknown."""
        return self._of.get(self._own, "")

    @property
    def is_known(self) -> bool:
        """True if any broker has told."""
        return bool(self._of)

    def learn(self, told: Mapping[int, str]) -> bool:
        """Record a broker's answer about those that are alive; return whether any rack is another than before."""
        new = {str(broker_id): rack for broker_id, rack in told.items()}
        if new.items() <= self._of.items():
            return False
        self.generation += 1
        self._of.update(new)
        if len(self._of) > MAX_BROKERS:
            self._of = dict([*new.items()][:MAX_BROKERS])
        return True

    def brokers_in(self, rack: str) -> list[int]:
        """Return the ids of those that are known to be in a rack, in order."""
        return sorted(int(broker_id) for broker_id, found in self._of.items() if found == rack)

    def is_crossed(self, peer: str) -> bool:
        """Return True if traffic with `peer` goes from one rack to another; false also where either is not known."""
        own, other = self._of.get(self._own), self._of.get(peer)
        return bool(own) and bool(other) and own != other

    def missing(self, rates: FinerRates) -> list[str]:
        """Return the racks that have a rate and no broker; none while nothing is known."""
        known = set(self._of.values())
        return [rack for rack in rates.racks if known and rack not in known]


class Relayed:
    """The bytes that one connection has relayed, and how many of them are counted already as going between racks."""

    __slots__ = ("_counted_request_bytes", "_counted_response_bytes", "request_bytes", "response_bytes")

    def __init__(self) -> None:
        self.request_bytes = self.response_bytes = 0
        self._counted_request_bytes = self._counted_response_bytes = 0

    def cross(self, statistics: RoleStatistics) -> None:
        """Count the remaining bytes: all go between racks."""
        statistics.cross_rack_request_bytes += self.request_bytes - self._counted_request_bytes
        statistics.cross_rack_response_bytes += self.response_bytes - self._counted_response_bytes
        self._counted_request_bytes, self._counted_response_bytes = self.request_bytes, self.response_bytes


class RackWarnings(NamedTuple):
    """The reasons why rates of racks may not have the effect that was meant."""

    unknown: Collection[str] = ()
    """The brokers with a connection whose rack no broker has told."""
    missing: Collection[str] = ()
    """The racks that have a rate, and in which no broker is."""

    def in_words(self) -> str:
        """Describe the reasons; empty if there are none."""
        words = []
        if self.unknown:
            unknown = first_of(sorted(self.unknown))
            words.append(
                f"rates of racks do not hold for broker {unknown}, whose rack is unknown. Does the "
                "listener require a login ([names]), or does egress.peers lack that broker?"
            )
        if self.missing:
            words.append(f"no broker is in rack {first_of(sorted(self.missing))}, which has a rate: is it misspelt?")
        return " ".join(words)


def first_of(names: Sequence[str]) -> str:
    """Return the first `MAX_NAMED`, and how many more there are, for people."""
    named = ", ".join(names[:MAX_NAMED])
    return named if len(names) <= MAX_NAMED else f"{named} and {len(names) - MAX_NAMED} more"


NO_RACK_WARNINGS = RackWarnings()
