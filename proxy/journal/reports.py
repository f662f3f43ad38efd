"""Reports events to the journal: starts, stops, quotas, reloads, connections, traffic of clients with quotas.

The only place that knows both the sidecar's values and the fields of events. Invariant: without a journal everything
here does nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import msgspec

from journal_schema import Kind

from ..quotas.finer_rates import PEER, RACK, TOPIC
from .encoding import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..quota_files.reload import ReloadOutcome
    from ..quotas import RoleQuota
    from ..quotas.finer_rates import FinerRates
    from ..quotas.keys import ClientTraffic
    from ..quotas.override import Override
    from ..relay.in_flight import InFlightRequests
    from ..roles import Role
    from ..throttle.role_throttle import RoleThrottle
    from ..topology.racks import Racks
    from .recorder import Journal


class ClientTotals(Protocol):
    """The totals of `clients.throttle`, by the entity's name in metrics and the kind of traffic."""

    enforce: bool

    @property
    def passed_bytes(self) -> Mapping[tuple[str, ClientTraffic], int]: ...

    @property
    def throttle_seconds(self) -> Mapping[tuple[str, ClientTraffic], float]: ...


class JournalReports:
    """Reports events of the sidecar to its journal, if any."""

    def __init__(self, journal: Journal | None, policy: str) -> None:
        self._journal = journal
        self._policy = policy
        self._selections: dict[Role, tuple[RoleQuota, Selection]] = {}
        self._bounds: dict[Role, tuple[FinerRates, int, str | None]] = {}
        self._clients: dict[tuple[str, ClientTraffic], tuple[int, float]] = {}
        """The bytes and the muted seconds of each entity that were told."""

    def started(self, version: Callable[[], str]) -> None:
        if self._journal is not None:
            self._journal.event(Kind.START, version=version())

    def stopped(self) -> None:
        if self._journal is not None:
            self._journal.event(Kind.STOP)

    def quota(self, throttle: RoleThrottle, reason: str) -> None:
        """Record a role's quota as it holds from here on."""
        if self._journal is None:
            return
        role, quota = throttle.role, throttle.quota
        self._journal.event(
            Kind.QUOTA,
            role=role.value,
            bytes_per_second=None if math.isinf(quota.bytes_per_second) else quota.bytes_per_second,
            policy=str(self._policy),
            enforce=throttle.enforce,
            selection=self._selection(role, quota),
            reason=reason,
            bounds=self._bounds_text(role, quota.finer, throttle.racks),
            priorities=",".join(throttle.urgency.priorities.entries()) or None,
        )

    def _bounds_text(self, role: Role, rates: FinerRates, racks: Racks) -> str | None:
        """Return the text made for these rates before, as long as they are the same object and no rack has changed
        since."""
        known = self._bounds.get(role)
        if known is None or known[0] is not rates or known[1] != racks.generation:
            known = self._bounds[role] = rates, racks.generation, bounds_text(rates, racks)
        return known[2]

    def _selection(self, role: Role, quota: RoleQuota) -> Selection:
        """Return the selection made for these lists before, as long as they are the same objects: a rate that sets
        itself makes a new quota once a second, and its lists stay."""
        known = self._selections.get(role)
        if known is None or not quota.has_lists_of(known[0]):
            known = self._selections[role] = quota, Selection(quota)
        return known[1]

    def reloaded(self, outcome: ReloadOutcome) -> None:
        if self._journal is not None:
            self._journal.event(Kind.RELOAD, outcome=outcome.result.value, error=outcome.error, reason=outcome.reason)

    def override(self, override: Override, action: str, by: str | None) -> None:
        """Record an override that was set or undone, or that ended."""
        if self._journal is not None:
            self._journal.event(
                Kind.OVERRIDE,
                override=override.id,
                action=action,
                label=override.label,
                by=by,
                because=override.reason,
                until=None if override.until is None else int(override.until.timestamp()),
                changes=msgspec.json.encode(override.changes).decode(),
            )

    def clients(self, throttle: ClientTotals) -> None:
        """Report the bytes of clients with quotas since the last time, and for how long they were muted."""
        if self._journal is None:
            return
        for (entity, traffic), size in throttle.passed_bytes.items():
            key, muted = (entity, traffic), throttle.throttle_seconds.get((entity, traffic), 0.0)
            told_bytes, told_seconds = self._clients.get(key, (0, 0.0))
            if (size, muted) != (told_bytes, told_seconds):
                self._clients[key] = size, muted
                self._journal.event(
                    Kind.CLIENT,
                    entity=entity,
                    traffic=traffic.value,
                    enforce=throttle.enforce,
                    client_bytes=size - told_bytes,
                    muted_seconds=round(muted - told_seconds, 3),
                )

    def connection_ended(self, in_flight: InFlightRequests, seconds: float) -> None:
        """Record a connection that carried replica fetches; other connections have no part in replication."""
        if self._journal is not None and in_flight.replica_fetches and in_flight.cause is not None:
            self._journal.event(
                Kind.CONNECTION,
                role=in_flight.link.throttle.role.value,
                peer=in_flight.link.peer,
                cause=in_flight.cause.value,
                seconds=round(seconds, 3),
                replica_fetches=in_flight.replica_fetches,
                held_seconds=round(in_flight.held_seconds, 3),
            )


def bounds_text(rates: FinerRates, racks: Racks) -> str | None:
    """Return the bounds as the journal has them: JSON by kind and name; None if there are none."""
    found: dict[str, dict[str, object]] = {}
    for entity, rate in rates.bounds():
        told: object = rate
        if entity.kind == RACK:
            told = {"bytes_per_second": rate, "brokers": racks.brokers_in(entity.name)}
        found.setdefault(_KINDS[entity.kind], {})[entity.name] = told
    return msgspec.json.encode(found).decode() if found else None


_KINDS = {PEER: "peers", RACK: "racks", TOPIC: "topics"}
