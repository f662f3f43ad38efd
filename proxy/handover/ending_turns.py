"""Ends the connections that cannot go to another process, because the keys that OpenSSL has agreed on cannot leave this
one: followers' first, one at a time, spread over some seconds. Their peers dial the new process.

Invariant: a connection is served as ever until its turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ..relay.connection import Given

if TYPE_CHECKING:
    from ..logs.log import Log
    from ..relay.connection import Connection
    from ..relay.in_flight import InFlightRequests

SPREAD_SECONDS, MAX_SPREAD_SECONDS = 3.0, 10.0
"""How long it takes until the last connection's turn has come, of a few hundred and of any number. Peers that came back
at once would wait for each other's handshakes."""
MIN_TURN_SECONDS, MAX_TURN_SECONDS = 0.01, 0.25
"""The shortest turn of up to a thousand connections: the handshakes that follow take some milliseconds of a core. And
the longest, so that few connections take no longer than they need."""
AFTER_FOLLOWERS_SECONDS = 0.02
"""How long other connections wait before they line up. Followers that are behind are granted nothing here meanwhile."""
REPORT_SECONDS = 1.0


class EndingTurns:
    """The turns of the connections that end."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._asked: list[InFlightRequests] = []
        """The requests of each connection that has asked for its turn, ended or not."""
        self._turn = trio.Lock()
        self._reported_at = -REPORT_SECONDS

    @property
    def left(self) -> int:
        """Connections that have not ended."""
        return sum(each.cause is None for each in self._asked)

    async def give(self, connection: Connection) -> Given:
        """Return `Given.ENDS` when the connection's turn has come."""
        self._asked.append(connection.in_flight)
        if not connection.in_flight.replica_fetches:
            await trio.sleep(AFTER_FOLLOWERS_SECONDS)
        async with self._turn:
            self._report()
            spread_seconds = min(max(SPREAD_SECONDS, MIN_TURN_SECONDS * len(self._asked)), MAX_SPREAD_SECONDS)
            await trio.sleep(min(MAX_TURN_SECONDS, spread_seconds / len(self._asked)))
        return Given.ENDS

    def _report(self) -> None:
        now = trio.current_time()
        if now >= self._reported_at + REPORT_SECONDS:
            self._reported_at = now
            self._log.info("tls_connections_ending", left=self.left)

    async def report(self) -> None:
        """Log once a second how many connections are left, until none is."""
        while self._asked:
            self._report()
            if not self.left:
                self._asked.clear()
            await trio.sleep(REPORT_SECONDS)
