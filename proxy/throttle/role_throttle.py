"""The throttle of one role of this broker: the quota in force, its budget, its connections, its counters.

Pure: time is an argument. Knows quotas and budgets, not frames or sockets.
Invariant: everything accounted here passed to the follower; what was withheld is counted apart.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from protocol.session.registry import FetchSessions

from ..ledger.link_journal import LinkJournal
from ..topology.partition_urgency import PartitionUrgency
from ..topology.racks import NO_RACK_WARNINGS, Racks, RackWarnings
from ..topology.topic_names import TopicNames
from .budget_tree import BudgetTree, budget_node
from .peer_latencies import RoleLatencies
from .replicas import ReplicaCountLimit
from .throttled_lists import Selection

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from admission.budget_path import BudgetPath
    from admission.shares import BudgetNode, Claim
    from admission.simple_rate import SimpleRate
    from protocol.fetch.request import Asked
    from protocol.session.requests import PartitionKey

    from ..config.settings import QuotaSettings
    from ..ledger.ledger import Ledger
    from ..quotas.rules import Quotas, RoleQuota
    from ..roles import Role
    from ..statistics.counters import RoleStatistics
    from ..topology.racks import Relayed
    from .replica import Replica
    from .replicas import Replicas


AUTO_GATE_SECONDS = 0.02
"""The longest gate of a rate with `auto`, in seconds of the rate. Records with acks=all wait for what catches up before
them on the same connection. At 10 MB/s a gate of 100 ms puts half a megabyte before them, which takes 25 ms on a link
of 20 MB/s."""


class BranchTraffic:
    """The part of a response's throttled bytes that one branch bounds; see `RoleThrottle.account`."""

    __slots__ = ("claim", "granted", "passed", "reserved", "ungranted")

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.passed = self.reserved = self.granted = self.ungranted = 0

    def settle(self, now: float) -> None:
        if self.reserved:
            self.claim.budget.settle(self.claim, reserved=self.reserved, used=self.granted, now=now)
        if self.ungranted:
            self.claim.budget.settle(self.claim, reserved=0, used=self.ungranted, now=now)

    def add(self, used: int, granted: int, charged: int) -> None:
        """Count `used` bytes of one partition that passed, of which `charged` are taken from its grant, or without
        one."""
        self.passed += used
        if granted:
            self.reserved += granted
            self.granted += charged
        else:
            self.ungranted += charged


class OpenLink(Protocol):
    """The state that the role reads of each of its connections. `peer`: the other broker, for people."""

    peer: str
    replicas: Replicas
    relayed: Relayed


class RoleThrottle:
    """One per role and process. `budget` is shared by all links of the role."""

    def __init__(
        self,
        role: Role,
        settings: QuotaSettings,
        *,
        quotas: Quotas,
        statistics: RoleStatistics,
        now: float,
        ledger: Ledger | None = None,
        names: TopicNames | None = None,
        remembered: ReplicaCountLimit | None = None,
        urgency: PartitionUrgency | None = None,
        racks: Racks | None = None,
        above: BudgetNode | None = None,
    ) -> None:
        self.role = role
        self.statistics = statistics
        self.enforce = quotas.enforce
        quota = quota_in_force(quotas.of(role), None)
        self.selection = Selection(quota, TopicNames() if names is None else names)
        self.changes = 0
        """How many snapshots of the quotas were put in force after the first one."""
        self.ledger = ledger
        """The ledger to which traffic is reported; None: no journal is kept."""
        self.sessions: FetchSessions[Asked] = FetchSessions()
        """The fetch sessions that are translated (Fetch v7 and later): to omit a partition from a session's request,
        the sidecar has the leader's session forget it."""
        self.remembered = ReplicaCountLimit() if remembered is None else remembered
        self.links: set[OpenLink] = set()
        self.timings = RoleLatencies()
        self._strict = settings.policy == "strict"
        self.charges_on_send = not self._strict
        """True if budgets are charged when records begin to go on. Policy `strict` has reserved the bytes before."""
        self.urgency = PartitionUrgency(self.selection.names) if urgency is None else urgency
        """The partitions in need; shared by both roles."""
        self.urgency.apply(quotas.priorities)
        self.racks = Racks() if racks is None else racks
        """The rack of each broker; shared by both roles."""
        self._settings = settings
        self._above = above
        """The budget of the whole listener, of which this role's catch-up has what is left; None: there is none."""
        self._rate_above = quotas.listener_bytes_per_second
        self.tree = BudgetTree(budget_node(settings, quota.bytes_per_second, now), self.selection.names, self.racks)
        self.floor_bytes_per_second = 0.0
        """The floor of a rate with `auto`: what catch-up is to have even where it hurts (its `min`, or what a deadline
        needs)."""
        self.lowered_at = now
        """The time since when no more may pass than now: when the throttle began, or the rate was lowered last, or was
        enforced again. On the clock of `now`."""
        self._put_in_force(quota, now)

    @property
    def budget(self) -> BudgetNode:
        """The role's own budget, in which all its links have a claim."""
        return self.tree.root

    @property
    def rate(self) -> SimpleRate:
        """The rate at which throttled bytes passed, over KIP-73's window."""
        return self.tree.root.rate

    def apply(self, quotas: Quotas, now: float) -> None:
        """Put a new snapshot of the quotas in force; requests that wait are decided again by their connection."""
        self.changes += 1
        quota = quota_in_force(quotas.of(self.role), self.quota.bytes_per_second)
        if quotas.enforce and not self.enforce:
            self.lowered_at = now
        self.enforce = quotas.enforce
        self.selection.apply(quota)
        self.urgency.apply(quotas.priorities)
        self._note_lowering(quota.bytes_per_second, now)
        self.budget.change_rate(quota.bytes_per_second, now)
        self._rate_above = quotas.listener_bytes_per_second
        self._put_in_force(quota, now)

    def _note_lowering(self, bytes_per_second: float, now: float) -> None:
        if bytes_per_second < self.quota.bytes_per_second:
            self.lowered_at = now

    def _put_in_force(self, quota: RoleQuota, now: float) -> None:
        self.quota = quota
        """The quota in force. Where quotas.toml gives a rate that sets itself: at the value chosen last."""
        self.is_idle = self.ledger is None and quota.selects_nothing
        """True if no partition can be throttled, and no journal is kept: connections are relayed without looking
        further than the headers."""
        self.is_auto = quota.source is not None and quota.source.auto
        """True if the rate is the highest that does not hurt."""
        gate = self._settings.gate_seconds
        self.budget.change_gate(min(gate, AUTO_GATE_SECONDS) if self.is_auto else gate, now)
        above = None if math.isinf(self._rate_above) else self._above
        self.tree = self.tree.renew(quota.finer, self._settings, now, above)
        self._bound()

    def _bound(self) -> None:
        self.most_bytes_per_second = self.quota.bytes_per_second
        """The most that the role may have: its quota, or the rate above it."""
        if self.tree.above is not None:
            self.most_bytes_per_second = min(self.most_bytes_per_second, self._rate_above)
        is_bounded = not math.isinf(self.most_bytes_per_second)
        self.shapes = self._strict and self.enforce and (is_bounded or bool(self.tree.inner))
        """True if partition_max_bytes is lowered to what the budget grants. Policy kip73, the broker's own, admits a
        partition with its full limit or not at all."""
        self.paces = self.is_auto or (self.shapes and is_bounded)
        """True if what catches up beside records of replicas in sync comes in smaller pieces where their follower is
        late."""

    def has_spare(self, now: float) -> bool:
        """Return True if so much is left of the role's rate, and of that above it, that it is about to be lost."""
        above = self.tree.above
        return self.budget.has_spare(now) and (above is None or above.has_spare(now))

    def racks_changed(self) -> bool:
        """Apply changed racks of brokers: from now on their connections take part in the budgets of these racks. Return
        whether any rack has a budget."""
        if self.tree.has_racks:
            self.tree = self.tree.reroute()
        return self.tree.has_racks

    def change_rate(self, bytes_per_second: float, now: float) -> None:
        """Put a rate in force that was chosen within the bounds of the quota's source; the lists stay as they are."""
        self._note_lowering(bytes_per_second, now)
        self.quota = self.quota.at(bytes_per_second)
        self.budget.change_rate(bytes_per_second, now)
        self._bound()

    def rack_warnings(self) -> RackWarnings:
        """Return what keeps the rates of racks from holding: connected brokers whose rack is unknown, and racks
        that have a rate but no broker."""
        if not self.tree.has_racks:
            return NO_RACK_WARNINGS
        fetching = {link.peer for link in self.links if link.replicas.fetch_version is not None}
        unknown = tuple(sorted(peer for peer in fetching if self.racks.of(peer) is None))
        return RackWarnings(unknown, self.racks.missing(self.quota.finer))

    def count_crossing(self, link: OpenLink) -> None:
        """Count what a connection has relayed between racks since the last time."""
        if self.racks.is_crossed(link.peer):
            link.relayed.cross(self.statistics)

    def recount(self) -> None:
        """Count anew how many replicas are remembered, since connections end and partitions are asked for no more."""
        self.remembered.count = sum(len(link.replicas) for link in self.links)

    def open_journal(self, peer: str, known: Mapping[PartitionKey, Replica]) -> LinkJournal | None:
        """Return the recorder of one connection's traffic for the journal; None if no journal is kept."""
        if self.ledger is None:
            return None
        return LinkJournal(self.ledger, self.role, peer, topic_name=self.selection.topic_name, known=known)

    def account(
        self,
        path: BudgetPath,
        now: float,
        in_sync: int,
        catching_up: int,
        *,
        reserved: int,
        granted: int,
        ungranted: int,
        observed: int,
        branches: Collection[BranchTraffic] = (),
    ) -> None:
        """Count throttled bytes of one response, or of the part of it that has come, and take them from the budgets
        that bound them.

        All of them together are `in_sync` and `catching_up`. By what pays for them: `granted` are covered by grants,
        which were of `reserved` bytes; `ungranted` had no grant and are taken from the budget all the same; `observed`
        would have been withheld if quotas were enforced, and are not taken from it. `branches`: what of all that is of
        topics with a rate of their own.
        """
        statistics = self.statistics
        statistics.throttled_bytes_in_sync += in_sync
        statistics.throttled_bytes_catching_up += catching_up
        statistics.withheld_bytes += observed
        for claim in path.trunk:
            claim.budget.count_passed(in_sync + catching_up, now)
        for branch in branches:
            branch.claim.budget.count_passed(branch.passed, now)
        if reserved:
            path.settle(reserved=reserved, used=granted, now=now)
        if ungranted:
            path.settle(reserved=0, used=ungranted, now=now)
        for branch in branches:
            branch.settle(now)


def quota_in_force(quota: RoleQuota, before: float | None) -> RoleQuota:
    """Return a role's quota as it is to begin, where `before` is the rate in force until now.

    A fixed rate begins as it is. A rate that sets itself goes on from `before`, within its own bounds; without one it
    begins at its least, until it is set for the first time, which is at once.
    """
    source = quota.source
    if source is None:
        return quota
    started = before is None or math.isinf(before)
    return quota.at(source.least if started else min(max(before or 0.0, source.least), source.most))
