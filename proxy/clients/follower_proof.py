"""Learns whether a connection is a follower's: a broker has accepted a replica's Fetch on it.

    last request a Fetch ──▶ its answer is looked at: a consumer's ends the search, a replica's may prove it

Anybody can write a replica's id into a Fetch; a broker answers one that may not replicate with an error of each
partition. Pure. Invariant: only the first answers are looked at, and go on as they came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.fetch.response import first_error_code
from protocol.wire.apis import API_FETCH
from protocol.wire.framing import LENGTH_PREFIX_BYTES, RESPONSE_START, RESPONSE_START_BYTES

from ..relay.transfer import Need

if TYPE_CHECKING:
    from ..relay.in_flight import InFlightRequests
    from ..relay.transfer import Window

MAX_ANSWERS = 10
"""The number of answers that are looked at: one in a fetch session may have no partition."""
PEEKED_BYTES = 512
"""The beginning of an answer that is waited for, as far as its first partition's error code: a topic's name has 249
characters."""
ACCEPTING = frozenset({0, 1, 6, 74, 75})
"""The errors of a partition that a broker finds after it has authorized a replica's Fetch: NONE, OFFSET_OUT_OF_RANGE,
NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH. Those of fetch sessions come before."""


class FollowerProof:
    """The search on a connection."""

    __slots__ = ("_answers_left", "_in_flight", "is_given", "last_api")

    def __init__(self, in_flight: InFlightRequests) -> None:
        self._in_flight = in_flight
        self._answers_left = MAX_ANSWERS
        self.is_given = False
        """True once the broker has answered a replica's Fetch as it answers those that may replicate."""
        self.last_api = -1
        """API key of the last request."""

    @property
    def is_sought(self) -> bool:
        """True if the connection may be a follower's, and nothing is proven yet."""
        in_flight = self._in_flight
        may_be = in_flight.replica_fetches > 0 or self.last_api == API_FETCH
        return may_be and self._answers_left > 0 and not self.is_given

    def read(self, window: Window) -> Need | None:
        """Look at the response at the window's start; Need: not enough of it has come."""
        in_flight, version = self._in_flight, self._in_flight.link.replicas.fetch_version
        if not in_flight.replica_fetches or version is None:
            self._answers_left = 0  # a consumer's
            return None
        if window.size < RESPONSE_START_BYTES:
            return None if window.ended else Need(RESPONSE_START_BYTES)
        total = LENGTH_PREFIX_BYTES + int(RESPONSE_START.unpack_from(window.buffer, window.start)[0])
        needed = min(total, PEEKED_BYTES)
        if window.size < needed and not window.ended:
            return Need(needed, total - window.size)
        code = first_error_code(version, window.buffer, window.start + LENGTH_PREFIX_BYTES, window.end)
        self.is_given = code in ACCEPTING
        self._answers_left -= 1
        return None
