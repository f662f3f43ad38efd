"""A consumer's Fetches on one connection are decided by a link of its quota, if only catching up counts.

    quota with catch_up_only ──▶ a link of the entity's throttle     read whole, held or changed, as a follower's
    any other, or none ────────▶ the role's link, which decides followers' Fetches alone

A link refuses a fetch session that it has not begun, or whose throttle is lifted, and the consumer begins another
at once. So a session from which partitions were left out never goes on at the broker as it is. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.fetch.consumer import ConsumerFetch

    from ..relay.in_flight import InFlightRequests
    from .consumers import CatchUp


class ConsumerDecider:
    """The choice for a connection."""

    __slots__ = ("_in_flight", "_throttle")

    def __init__(self, in_flight: InFlightRequests) -> None:
        self._in_flight = in_flight
        self._throttle: CatchUp | None = None

    @property
    def has_session(self) -> bool:
        """True if the consumer's fetch session may be such that only a link can go on with it, or refuse it."""
        return self._throttle is not None

    def decides(self, throttle: CatchUp | None, fetch: ConsumerFetch) -> bool:
        """Return True if the reader is to decide this Fetch, and have it do so by the right link. `throttle`: of the
        consumer's quota; None: all bytes count, or none."""
        before = self._throttle
        if throttle is before or (throttle is None and not fetch.session.is_full):
            return before is not None
        self.decide_by(throttle, reads_committed=fetch.reads_committed)
        return throttle is not None

    def decide_by(self, throttle: CatchUp | None, *, reads_committed: bool = False) -> None:
        """Let a new link of `throttle` decide Fetches; None: the role's."""
        self._throttle, link = throttle, self._in_flight.link
        if throttle is not None:
            link = throttle.link(link.peer, leader=link.translator.leader, reads_committed=reads_committed)
        self._in_flight.decide_by(link)
