"""Asks a broker in which rack each broker is, for rates of racks and for the count of bytes that go between racks.

By Metadata without any topic, on a connection of its own, while there are connections to brokers whose id is known:
once a minute, and sooner while the quotas have a rate of a rack and a broker's rack is not known. What it means is
`throttle.racks`. Where no broker answers (the listener wants SASL or TLS and there is no login), rates of racks bound
nothing, which `throttle.doubts` says.

Invariant: asking takes no more than `MOST_SHARE` of the time; what connections have relayed is counted every second.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from protocol.metadata import broker_racks

from .metadata_asking import NobodyAnswersError, first_answer, metadata_of, pause_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from ..logs.log import Log
    from ..roles import Role
    from ..throttle.racks import Racks
    from ..throttle.role_throttle import RoleThrottle
    from .broker_asking import Broker

LOOK_SECONDS = 1.0
AGAIN_SECONDS = 60.0
"""How old what is known may become: a broker's rack changes with its restart alone."""
UNKNOWN_SECONDS = 3.0
"""The same while a rate of a rack waits for a rack that is not known. Without such a rate, nothing is asked before this
time after the start."""
MOST_SHARE = 0.02


class RackAsking:
    """Of one process. `changed` is called with each role of which other budgets hold, because racks are others than
    before."""

    def __init__(self, racks: Racks, throttles: Collection[RoleThrottle], changed: Callable[[Role], None]) -> None:
        self._racks = racks
        self._throttles = throttles
        self._changed = changed
        self._asked_at = -math.inf
        self._asked_for: frozenset[str] = frozenset()
        """Brokers whose rack was not known when racks were asked for last."""
        self._not_before = -math.inf
        self._told: str | None = None

    async def run(self, brokers: Iterable[Broker], log: Log) -> None:
        """Ask now and then, until cancelled."""
        began = trio.current_time()
        while True:
            if self._is_due(trio.current_time(), began):
                await self._ask(brokers, log)
            for throttle in self._throttles:
                for link in tuple(throttle.links):
                    throttle.count_crossing(link)
            await trio.sleep(LOOK_SECONDS)

    def _is_due(self, now: float, began: float) -> bool:
        if now < self._not_before:
            return False
        age = now - self._asked_at
        if any(throttle.names_racks for throttle in self._throttles):
            wanted = self._unknown()
            if wanted or not self._racks.is_known:
                return age >= UNKNOWN_SECONDS or bool(wanted - self._asked_for)
        if age < AGAIN_SECONDS or now - began < UNKNOWN_SECONDS:
            return False
        return any(link.peer.isdecimal() for throttle in self._throttles for link in throttle.links)

    def _unknown(self) -> frozenset[str]:
        """The brokers whose rack a rate waits for."""
        return frozenset(peer for throttle in self._throttles for peer in throttle.rack_doubts().unknown)

    async def _ask(self, brokers: Iterable[Broker], log: Log) -> None:
        """Learn what the first broker says that answers; say once what went wrong where none does."""

        async def question(broker: Broker) -> dict[int, str]:
            return await metadata_of(broker, (), broker_racks)

        self._asked_at, self._asked_for = trio.current_time(), self._unknown()
        failure = None
        try:
            told = await first_answer(brokers, question)
        except NobodyAnswersError as error:
            failure = str(error)
            if self._told is None:
                log.info("racks_unknown", error=failure)
        else:
            if self._racks.learn(told):
                for throttle in self._throttles:
                    if throttle.racks_changed():
                        self._changed(throttle.role)
        self._told = failure
        took = trio.current_time() - self._asked_at
        self._not_before = trio.current_time() + min(pause_seconds(took, 0.0, MOST_SHARE), AGAIN_SECONDS)
