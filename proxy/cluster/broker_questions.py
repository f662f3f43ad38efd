"""The questions about brokers: of which cluster they are, in which rack each is, and between which replication runs.

Each says when it is due, what is asked and who learns the answer; `view` asks. What answers mean is decided by their
users: `throttle.racks`, `observing.quota_checks`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import trio

from protocol.metadata import cluster_and_racks, replication_links

from .broker_client import ask_metadata
from .view import RETRY_SECONDS, Question, poll

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from protocol.metadata import Links

    from ..roles import Role
    from ..throttle.role_throttle import RoleThrottle
    from ..topology.racks import Racks
    from .broker_client import Broker

RACKS_SECONDS = 60.0
"""The greatest age of the racks: a broker's rack changes only when it restarts."""
UNKNOWN_RACK_SECONDS = 3.0
"""The greatest age of the racks while a rate waits for an unknown rack. Without such a rate, nothing is asked earlier
than this after the start."""
LINKS_SECONDS = 60.0


class RackQuestion(Question["tuple[str, Mapping[int, str]]"]):
    """Asks for the cluster's id and the rack of each broker: for rates of racks, for the count of bytes between racks,
    and once for the journal.

    Due once a minute while a broker with a known id is connected, and sooner while a rate waits for an unknown rack or
    the journal for its place. Without an answer, rates of racks bound nothing, which `diagnostics.quota_diagnostics`
    reports.
    """

    name = "racks"
    retry_seconds = 0.0  # `_is_due` has the pause

    def __init__(
        self,
        racks: Racks,
        throttles: Collection[RoleThrottle],
        changed: Callable[[Role], None],
        learn_place: Callable[[str, str], None] | None = None,
    ) -> None:
        """Call `changed` with each role whose budgets changed, and `learn_place` once, with the cluster's id and our
        rack, each empty if there is none."""
        self._racks = racks
        self._throttles = throttles
        self._changed = changed
        self._learn_place = learn_place
        self._began = trio.current_time()
        self._asked_at = -math.inf
        self._asked_for: frozenset[str] = frozenset()
        """The brokers whose rack was unknown when racks were asked for last."""

    async def wait_until_due(self) -> None:
        """Wait until a rate or the journal waits for a rack, or the racks are old."""
        await poll(self._is_due)

    def _is_due(self, now: float) -> bool:
        age = now - self._asked_at
        if any(throttle.tree.has_racks for throttle in self._throttles):
            unknown = self._unknown()
            if unknown or not self._racks.is_known:
                return age >= UNKNOWN_RACK_SECONDS or bool(unknown - self._asked_for)
        is_early = age < RACKS_SECONDS or now - self._began < UNKNOWN_RACK_SECONDS
        if is_early and (self._learn_place is None or age < RETRY_SECONDS):
            return False
        return any(link.peer.isdecimal() for throttle in self._throttles for link in throttle.links)

    def _unknown(self) -> frozenset[str]:
        """Return the brokers whose rack a rate waits for."""
        return frozenset(peer for throttle in self._throttles for peer in throttle.rack_doubts().unknown)

    async def ask(self, broker: Broker) -> tuple[str, Mapping[int, str]]:
        """Return the cluster's id, and the rack of each broker that is alive, empty for one that is in none."""
        return await ask_metadata(broker, (), cluster_and_racks)

    def learn(self, found: tuple[str, Mapping[int, str]] | None, now: float) -> None:
        """Learn the racks; budgets of racks change with them."""
        self._asked_at, self._asked_for = now, self._unknown()
        if found is None:
            return
        cluster, racks = found
        if self._racks.learn(racks):
            for throttle in self._throttles:
                if throttle.racks_changed():
                    self._changed(throttle.role)
        if self._learn_place is not None:
            self._learn_place(cluster, self._racks.own)
            self._learn_place = None


class LinkQuestion(Question["Links"]):
    """Asks between which brokers replication runs, while a quota holds in a role that has no connection.

    That may be right: a broker that leads everything fetches from no other, and one that leads nothing sends to none.
    """

    name = "links"
    least_pause_seconds = retry_seconds = LINKS_SECONDS

    def __init__(
        self, broker_id: int, is_due: Callable[[float], bool], learn_links: Callable[[Links | None], None]
    ) -> None:
        self._broker_id = broker_id
        self._is_due = is_due
        self._learn_links = learn_links

    async def wait_until_due(self) -> None:
        """Wait until a role has a quota and no connection."""
        await poll(self._is_due)

    async def ask(self, broker: Broker) -> Links:
        """Return the links of the broker beside us, from all topics."""
        return await ask_metadata(broker, None, partial(replication_links, broker_id=self._broker_id))

    def learn(self, found: Links | None, now: float) -> None:
        """Pass the links on; None: unknown."""
        del now
        self._learn_links(found)
