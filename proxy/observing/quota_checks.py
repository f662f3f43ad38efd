"""Checks once a second each role's traffic, and whether its quota has the intended effect; and looks at
every replica on request.

Does little itself: `diagnostics` finds warnings and rates, `cluster` topics and links.
Invariant: a look at the replicas is taken in slices
(`http.loop_share`), at most once a second, for all who ask: a scrape and ten people who watch `status` cost one. A look
of up to 1.1 s takes a tenth of the loop at most.
"""

from __future__ import annotations

import heapq
import itertools
import math
from typing import TYPE_CHECKING

import trio

from protocol.metadata import Links

from ..cluster.kafka_throttle import KafkaThrottleQuestion
from ..cluster.questions import LinkQuestion, ListedTopicsQuestion
from ..diagnostics.quota_diagnostics import QuotaDiagnostics, QuotaWarning, is_in_force, unknown_replicas
from ..diagnostics.replica_stats import ReplicaStats, replica_stats
from ..diagnostics.role_rates import RoleRateMeter, RoleRates, partition_rates
from ..http.loop_share import Shared
from ..roles import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ..diagnostics.role_rates import PartitionRate
    from ..http.loop_share import LoopShare
    from ..quota_files.reload import QuotaWatch
    from ..throttle.role_throttle import RoleThrottle


LOOK_SECONDS = 1.0
CONNECT_SECONDS = 10.0
"""The time after which brokers are asked who replicates with whom: those that can connect have done so."""
MIN_PAUSE_SECONDS = 1.0
PAUSE_RATIO = 9.0
"""The pause after a look, as a multiple of the look's time, between the two bounds. The look's time includes what
others do between its slices."""
MAX_PAUSE_SECONDS = 10.0


class QuotaChecks:
    """Samples rates and finds quota warnings. `throttles` has the roles that the sidecar serves."""

    def __init__(self, throttles: Mapping[Role, RoleThrottle]) -> None:
        self._throttles = throttles
        self._listed: ListedTopicsQuestion | None = None
        self._quota_since = math.inf
        """The time since when there has been a quota in force; infinite if there is none."""
        self._links: Links | None = Links()
        """The links of the broker beside us; None: no broker tells. Empty before it was asked for."""
        self._kafka_rates: Mapping[Role, int] = {}
        """The broker's own throttle, in bytes per second, as far as it is set and known."""
        self._diagnostics = {role: QuotaDiagnostics(role) for role in throttles}
        self._passing = {role: RoleRateMeter() for role in throttles}

    def quota_warnings(self, role: Role) -> tuple[QuotaWarning, ...]:
        """Return the warnings of the last check; none for a role that is not served."""
        return self._diagnostics[role].found if role in self._diagnostics else ()

    def passing(self, role: Role) -> RoleRates:
        return self._passing[role].measure() if role in self._passing else RoleRates()

    async def run(self) -> None:
        """Check quotas until cancelled."""
        while True:
            self.look(trio.current_time())
            await trio.sleep(LOOK_SECONDS)

    def topics_question(self, watch: QuotaWatch) -> ListedTopicsQuestion:
        """Return the question for the topics that the lists of the served roles name."""
        seen = watch.current

        def named(most: int) -> list[str]:
            nonlocal seen
            seen = watch.current
            in_order = heapq.merge(*(seen.of(role).named for role in self._throttles))
            return [topic for topic, _ in itertools.islice(itertools.groupby(in_order), most)]

        async def wait_changed() -> None:
            await watch.wait_changed(seen)

        self._listed = ListedTopicsQuestion(named, wait_changed)
        return self._listed

    def links_question(self, broker_id: int) -> LinkQuestion:
        """Return the question whether there should be connections in a role that has none."""
        return LinkQuestion(broker_id, self._are_due, self.learn_links)

    def kafka_throttle_question(self, broker_id: int) -> KafkaThrottleQuestion:
        """Return the question whether the broker throttles by itself as well."""
        return KafkaThrottleQuestion(broker_id, self._are_due, self.learn_kafka_rates)

    def learn_kafka_rates(self, rates: Mapping[Role, int]) -> None:
        self._kafka_rates = rates

    def lower_kafka_rate(self, role: Role) -> int | None:
        """Return the broker's own rate in bytes per second, if it is known and lower than the quota in force."""
        rate, quota = self._kafka_rates.get(role), self._throttles[role].quota
        return rate if rate is not None and is_in_force(quota) and rate < quota.bytes_per_second else None

    def _are_due(self, now: float) -> bool:
        """Return True once a quota has been in force for as long as brokers need to connect."""
        self._quota_since = min(self._quota_since, now) if self._any_quota() else math.inf
        return now - self._quota_since >= CONNECT_SECONDS

    def _any_quota(self) -> bool:
        return any(is_in_force(throttle.quota) for throttle in self._throttles.values())

    def learn_links(self, links: Links | None) -> None:
        self._links = links

    def _linked(self, role: Role) -> Collection[int] | None:
        if self._links is None:
            return None
        return self._links.followers if role is Role.LEADER else self._links.leaders

    def _seen(self, role: Role) -> set[int] | None:
        """Return the brokers that replicate through the sidecar; None if that cannot be told of every connection."""
        throttle, addresses = self._throttles[role], {} if self._links is None else self._links.addresses
        if throttle.statistics.opaque_connections or throttle.is_idle:
            return None
        peers = {link.peer for link in throttle.links if link.replicas.fetch_version is not None}
        brokers = {peer: int(peer) if peer.isdecimal() else addresses.get(peer) for peer in peers}
        return None if None in brokers.values() else {each for each in brokers.values() if each is not None}

    def look(self, now: float) -> None:
        """Check both roles at `now`, in seconds of the monotonic clock."""
        if not self._any_quota():
            self._links = Links()  # of an earlier time
        for role, throttle in self._throttles.items():
            self._passing[role].sample(throttle.statistics, now)
            for link in tuple(throttle.links):
                throttle.count_crossing(link)
            diagnostics = self._diagnostics[role]
            unknown = unknown_replicas(throttle.quota, {} if self._listed is None else self._listed.partitions)
            connections, racks = throttle.statistics.connections, throttle.rack_warnings()
            linked, seen = self._linked(role), self._seen(role)
            diagnostics.look(throttle.quota, connections, unknown, now, racks=racks, linked=linked, seen=seen)


def pause_seconds(took_seconds: float) -> float:
    return min(max(MIN_PAUSE_SECONDS, PAUSE_RATIO * took_seconds), MAX_PAUSE_SECONDS)


class ReplicaStatsTask:
    """Collects statistics of every replica when they are wanted and due. `partitions`: also the rate of each."""

    def __init__(
        self,
        throttles: Mapping[Role, RoleThrottle],
        turn: LoopShare,
        *,
        pause_seconds: Callable[[float], float] = pause_seconds,
        partitions: bool = False,
    ) -> None:
        self._throttles = throttles
        self._turn = turn
        self._shared = Shared(self._look, pause_seconds)
        self._last = {role: ReplicaStats() for role in Role}
        self._partitions = partitions
        self._rates: dict[Role, list[PartitionRate]] = {role: [] for role in Role}

    def last(self, role: Role) -> ReplicaStats:
        """Return the findings of the last look; an empty replica_stats before the first look."""
        return self._last[role]

    def partition_rates(self, role: Role) -> list[PartitionRate]:
        """Return the rate of each throttled partition as it was found last; none unless they are looked at."""
        return self._rates[role]

    async def refresh(self) -> None:
        """Wait until `last` is no older than the pause allows."""
        await self._shared.recent()

    async def run(self) -> None:
        """Collect statistics on request, until cancelled."""
        await self._shared.run()

    async def _look(self) -> None:
        now = trio.current_time()
        found = {role: await self._turn.work_out(replica_stats(self._throttles[role], now)) for role in self._throttles}
        self._last.update(found)
        if self._partitions:
            for role, throttle in self._throttles.items():
                self._rates[role] = await self._turn.work_out(partition_rates(throttle, now))
