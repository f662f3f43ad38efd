"""Warnings about valid quotas that probably lack the intended effect.

A quota that throttles nothing gives no error: brokers may go around the sidecar, a list may name partitions that the
cluster does not have, a unit may have been forgotten. Each warning names the place to look at. Pure: time is an
argument, in seconds.
"""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING, NamedTuple

from ..quotas import format_rate
from ..quotas.keys import about_tiny_rate
from ..quotas.rate_source import MIN_RATE
from ..roles import Role
from ..topology.racks import MAX_NAMED, NO_RACK_WARNINGS, first_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Set

    from ..quotas import RoleQuota
    from ..topology.racks import RackWarnings

ALONE_SECONDS = 60.0
"""How long a quota may be in force without a connection before a warning. Followers come back within seconds
(replica.fetch.backoff.ms, reconnect.backoff.max.ms)."""
MISSING_SECONDS = 30.0
"""The time for which a broker may go unseen by the sidecar before a warning."""
# Metadata tells who replicates by assignment: nothing here tells a broker that goes around from one that is cut off.
_WHO_GOES_AROUND = {
    Role.LEADER: (
        "fetch from this broker: they go around the sidecar, if they are not cut off. Does the broker advertise "
        "ingress.listen on its replication listener?"
    ),
    Role.FOLLOWER: (
        "are fetched from by this broker: it goes around the sidecar, if it is not cut off. Does what it dials lead to "
        "the egress (hosts entries, or redirect.sh show), and did it open its connections after that?"
    ),
}


class Reason(enum.StrEnum):
    """The value is the metric label `reason`."""

    NO_CONNECTION = "no_connection"
    """The warning that no connection has come. It raises an alert, and has a sample of the metric, only where a broker
    says that there are brokers whose connections should."""
    BYPASSED = "bypassed"
    """The warning that some brokers replicate around the sidecar, while others do not."""
    UNKNOWN_REPLICAS = "unknown_replicas"
    TINY_RATE = "tiny_rate"
    UNKNOWN_RACKS = "unknown_racks"
    STOPPED = "stopped"
    """A rate of 0 inside the quota hides among many others, so it is shown; but it is not written by mistake, so it is
    no reason for an alert, and no sample of the metric."""


class QuotaWarning(NamedTuple):
    reason: Reason
    size: int
    """The number of listed topics, of brokers and racks, or of rates that the warning is about."""
    text: str
    """The finding and where to look, for people."""


def is_in_force(quota: RoleQuota) -> bool:
    """Return True if the quota bounds something."""
    return not math.isinf(quota.bytes_per_second) and not quota.selects_nothing


class QuotaDiagnostics:
    """The warnings about a role that this sidecar serves. `found`: those of the last look."""

    def __init__(self, role: Role) -> None:
        self.found: tuple[QuotaWarning, ...] = ()
        self._role = role
        self._alone_since: float | None = None
        """The time since when a quota has been in force without any connection; None: there is one, or no quota."""

        self._unseen: dict[int, float] = {}
        """The time since when each broker that should be seen through the sidecar has not been."""

    def is_alone(self, now: float) -> bool:
        """Return True if a quota has been in force without any connection for long."""
        return self._alone_since is not None and now - self._alone_since >= ALONE_SECONDS

    def look(
        self,
        quota: RoleQuota,
        connections: int,
        unknown: list[str],
        now: float,
        *,
        racks: RackWarnings = NO_RACK_WARNINGS,
        linked: Collection[int] | None = (),
        seen: Collection[int] | None = None,
    ) -> tuple[QuotaWarning, ...]:
        """Return the warnings there are now.

        `unknown`: the result of `unknown_replicas`. `linked`: the brokers whose connections should come
        through here, as far as it was asked for; None: no broker tells. `seen`: those that replicate through here;
        None: that cannot be told of each connection.
        """
        in_force = is_in_force(quota)
        if not in_force or connections:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        found: list[QuotaWarning] = []
        if self.is_alone(now) and (linked is None or linked):
            rate = format_rate(quota.bytes_per_second)
            text = f"a quota of {rate} is set, but no connection has come through the sidecar for a minute"
            found.append(
                QuotaWarning(Reason.NO_CONNECTION, 0 if linked is None else 1, text + self._about_links(linked))
            )
        elif missing := self._missing(linked if in_force else (), seen, now):
            named = first_of([str(broker) for broker in missing])
            text = f"brokers {named} {_WHO_GOES_AROUND[self._role]}"
            found.append(QuotaWarning(Reason.BYPASSED, len(missing), text))
        if unknown:
            found.append(QuotaWarning(Reason.UNKNOWN_REPLICAS, len(unknown), _about_unknown(unknown)))
        found += _about_rates(quota)
        if racks.in_words():
            found.append(QuotaWarning(Reason.UNKNOWN_RACKS, len(racks.unknown) + len(racks.missing), racks.in_words()))
        self.found = tuple(found)
        return self.found

    def _missing(self, linked: Collection[int] | None, seen: Collection[int] | None, now: float) -> list[int]:
        """Return the brokers that have not been seen for `MISSING_SECONDS`."""
        if seen is None:
            self._unseen.clear()
            return []
        absent = set(linked or ()).difference(seen)
        self._unseen = {broker: self._unseen.get(broker, now) for broker in absent}
        return sorted(broker for broker, since in self._unseen.items() if now - since >= MISSING_SECONDS)

    def _about_links(self, linked: Collection[int] | None) -> str:
        if linked is None:
            return ". No broker tells whether this broker replicates at all: does it go around the sidecar?"
        named = first_of([str(broker) for broker in sorted(linked)])
        return f", while brokers {named} {_WHO_GOES_AROUND[self._role]}"


def unknown_replicas(quota: RoleQuota, has: Mapping[str, Set[int]]) -> list[str]:
    """Describe the listed replicas that the cluster does not have, one text per topic.

    `has`: each topic's partitions; an empty set: the cluster has no such topic; no entry: not known.
    """
    found = []
    for topic in sorted(has):
        partitions, listed = has[topic], quota.topics.get(topic)
        if not listed:
            continue
        missing = sorted(listed.ids - partitions)
        if not partitions:
            found.append(f"{topic} (no such topic)")
        elif missing:
            numbers = ", ".join(map(str, missing[:MAX_NAMED])) + (", …" if len(missing) > MAX_NAMED else "")
            found.append(f"{topic} partition {numbers} (it has {min(partitions)} to {max(partitions)})")
    return found


def _about_rates(quota: RoleQuota) -> Iterator[QuotaWarning]:
    """Return the warnings about the role's rate and the rates inside it."""
    if quota.selects_nothing:
        return
    own = about_tiny_rate(quota.bytes_per_second)
    tiny = [f"{entity} has {format_rate(rate)}" for entity, rate in quota.finer.bounds() if 0 < rate < MIN_RATE]
    stopped = [str(entity) for entity, rate in quota.finer.bounds() if rate == 0]
    told = [] if own is None else [own]
    if tiny:
        told.append(
            "rates inside the quota are less than the 64 KiB of one portion: catch-up almost stops there. "
            f"Was a unit forgotten? {first_of(tiny)}"
        )
    if told:
        yield QuotaWarning(Reason.TINY_RATE, len(tiny) + (own is not None), "; ".join(told))
    if stopped:
        text = f"a rate of 0 stops catch-up for {first_of(stopped)}"
        yield QuotaWarning(Reason.STOPPED, len(stopped), text)


def _about_unknown(unknown: list[str]) -> str:
    named = "; ".join(unknown[:MAX_NAMED])
    if len(unknown) > MAX_NAMED:
        named += f"; and {len(unknown) - MAX_NAMED} more"
    return f"the lists name topics or partitions that the cluster lacks: {named}. Misspelt, or deleted?"
