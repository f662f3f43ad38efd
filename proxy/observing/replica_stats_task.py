"""Keeps the last look at every replica, and has a new one taken when it is wanted and due. Both roles are looked at
together, and the look is shared by all who ask: a scrape and ten people who watch `status` cost one look a second.
Invariant: a look is taken in slices (`http.loop_share`), at most once a second. A look of up to 1.1 s takes a tenth of
the loop at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ..diagnostics.partition_rates import partition_rates
from ..diagnostics.replica_stats import ReplicaStats, replica_stats
from ..http.loop_share import Shared
from ..roles import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..diagnostics.partition_rates import PartitionRate
    from ..http.loop_share import LoopShare
    from ..throttle.role_throttle import RoleThrottle

LEAST_PAUSE_SECONDS = 1.0
PAUSE_RATIO = 9.0
"""How many times longer than the look the pause after it is, between the two bounds. The look's time includes what
others do between its slices."""
MOST_PAUSE_SECONDS = 10.0


def pause_seconds(took_seconds: float) -> float:
    return min(max(LEAST_PAUSE_SECONDS, PAUSE_RATIO * took_seconds), MOST_PAUSE_SECONDS)


class ReplicaStatsTask:
    """Collects statistics of every replica when they are wanted and due. `partitions`: also each one's rate."""

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
        """Return what the last look found; an empty replica_stats before the first look."""
        return self._last[role]

    def partition_rates(self, role: Role) -> list[PartitionRate]:
        """Return the rate of each throttled partition as it was found last; none unless they are looked at."""
        return self._rates[role]

    async def refresh(self) -> None:
        """Wait until `last` is no older than the pause allows."""
        await self._shared.recent()

    async def run(self) -> None:
        """Look when asked, until cancelled."""
        await self._shared.run()

    async def _look(self) -> None:
        now = trio.current_time()
        found = {role: await self._turn.work_out(replica_stats(self._throttles[role], now)) for role in self._throttles}
        self._last.update(found)
        if self._partitions:
            for role, throttle in self._throttles.items():
                self._rates[role] = await self._turn.work_out(partition_rates(throttle, now))
