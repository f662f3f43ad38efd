"""What the two directions of one connection share: requests in flight, and the counters of its one log line.

No I/O of its own. Invariant: `in_flight` is 0 exactly when no response is owed or being sent to the follower, so
an answer of our own may be sent without getting in between.
"""

from __future__ import annotations

import contextlib
import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from protocol.correlation import Correlator

from ..changes import Changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.headers import RequestHead

    from ..logs import Log
    from ..statistics import RoleStatistics
    from ..throttle.link import Link
    from ..throttle.outlook import Outlook


MAX_FRAME_BYTES = 2**31 - 1
"""Frames that are passed on are never held, so any size the prefix can say is fine."""


class Cause(enum.Enum):
    """Why a connection ended; the value is the log's."""

    FOLLOWER_CLOSED = "follower_closed"
    LEADER_CLOSED = "leader_closed"
    CONNECT_FAILED = "connect_failed"
    BROKEN = "connection_broken"
    MALFORMED = "malformed_frame"
    DRAINED = "drained"


class Undecoded(enum.Enum):
    """Why traffic passed without being understood; the value is the metric's label."""

    TLS = "tls"
    FRAMING = "framing"
    UNSUPPORTED_VERSION = "unsupported_version"
    MALFORMED_REQUEST = "malformed_request"
    MALFORMED_RESPONSE = "malformed_response"
    REQUEST_TOO_LARGE = "request_too_large"
    RESPONSE_TOO_LARGE = "response_too_large"


@dataclass(slots=True)
class Exchange:
    """One per connection."""

    link: Link
    changes: Changes
    """Wakes held requests: quotas changed, or a drain began."""
    log: Log
    settled: Changes = field(default_factory=Changes)
    """Notified after each response."""
    draining: bool = False
    opaque: bool = False
    """Frames cannot be told apart any more: bytes pass as they come."""
    cause: Cause | None = None
    error: str | None = None
    frames: int = 0
    replica_fetches: int = 0
    held_seconds: float = 0.0
    undecoded: set[Undecoded] = field(default_factory=set)
    correlator: Correlator[Outlook] = field(default_factory=Correlator)
    _owed: list[Outlook] = field(default_factory=list)
    _responding: bool = False
    _deciding: bool = False

    @property
    def statistics(self) -> RoleStatistics:
        return self.link.throttle.statistics

    @property
    def in_flight(self) -> bool:
        return self._responding or self.correlator.in_flight > 0

    @property
    def is_idle(self) -> bool:
        """Nothing is owed in either direction: the connection may be closed without loss."""
        return not self.in_flight and not self._deciding

    async def wait_answered(self) -> None:
        """Wait until nothing is in flight, so that an answer of our own keeps its place."""
        while self.in_flight:
            await self.settled.wait()

    @contextlib.contextmanager
    def deciding(self) -> Iterator[None]:
        """A request has been taken from the follower and has neither been forwarded nor answered yet."""
        self._deciding = True
        try:
            yield
        finally:
            self._deciding = False
            self.settled.notify()

    def sent(self, head: RequestHead, *, expects_response: bool, outlook: Outlook | None = None) -> None:
        """A request is about to go on."""
        self.frames += 1
        self.correlator.sent(head, expects_response, outlook)
        if outlook is not None:
            self._owed.append(outlook)

    def received(self, correlation_id: int | None) -> Outlook | None:
        """A response begins to arrive; return what its request asked to be done with it."""
        outlook = self.correlator.received(correlation_id)
        self._responding = True
        if outlook is not None:
            self._owed.remove(outlook)
        return outlook

    def responded(self) -> None:
        """The response is through."""
        self._responding = False
        self.settled.notify()

    def close(self, now: float) -> None:
        """Give back every grant whose answer will never come."""
        for outlook in self._owed:
            outlook.finish(now)
        self._owed.clear()
        self.link.close()

    def pass_undecoded(self, reason: Undecoded) -> None:
        """Count traffic that passes without being understood; logged once per connection and reason."""
        self.statistics.undecoded[reason.value] += 1
        if reason not in self.undecoded:
            self.undecoded.add(reason)
            link = self.link
            self.log.warning(
                "passed_undecoded", role=link.throttle.role.value, peer=link.peer, reason=reason.value
            )

    def turn_opaque(self, reason: Undecoded) -> None:
        """Frames cannot be told apart any more: from here on both directions pass bytes as they come."""
        self.pass_undecoded(reason)
        self.opaque = True

    def end(self, cause: Cause, error: str | None = None) -> None:
        """The first cause is the one that counts."""
        if self.cause is None:
            self.cause, self.error = cause, error
