"""The input of a decision about a follower's Fetch, and its results.

Values only: `link` decides, the relay acts. Invariant: a demand is decided again and again until it is forwarded or
answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from protocol.fetch.response import error_fetch_response
from protocol.wire.headers import request_correlation_id

if TYPE_CHECKING:
    from protocol.fetch.request import Asked, FetchRequest
    from protocol.session.requests import LocalAnswer
    from protocol.session.translator import Translation
    from protocol.work_in_steps import Steps

    from .pending_fetch import PendingFetch


@dataclass(slots=True)
class Forward:
    """Send `frame`, without its length prefix (None: the request as it came), and treat the response as `pending` says
    (None: pass it unread). `building`: the steps that are still to be done for the frame. A dataclass, since a
    NamedTuple takes half as long again to make, and one is made for each fetch."""

    frame: bytes | None
    pending: PendingFetch | None
    building: Steps[bytes] | None = None


class Hold(NamedTuple):
    """Decide again at `until`, or when the quotas change."""

    until: float


class Answer(NamedTuple):
    """Send `frame` (no length prefix) to the follower; the leader is not asked."""

    frame: bytes


Decision = Forward | Hold | Answer


@dataclass(slots=True)
class Demand:
    """A request that is being decided, several times if it is held. `translation`: its part in a fetch session (v7 and
    later). `partitions`: how many of them the follower wants, listed or not. No tuple, for the same reason."""

    frame: bytes
    request: FetchRequest
    arrived: float
    partitions: int
    translation: Translation[Asked] | None = None

    @property
    def correlation_id(self) -> int:
        """The correlation id in `frame`. `request` may have another: that of an equal request parsed before."""
        return request_correlation_id(self.frame)

    @property
    def deadline(self) -> float:
        return self.arrived + self.request.max_wait_ms / 1000

    @property
    def is_full(self) -> bool:
        """True if its response must hold every partition that the follower wants."""
        return self.translation is None or self.translation.request.is_full


def error_answer(frame: bytes, request: FetchRequest, answer: LocalAnswer) -> Answer:
    """Answer that a fetch session is over, so that the follower starts a new one."""
    version, correlation_id = request.head.api_version, request_correlation_id(frame)
    return Answer(error_fetch_response(version, correlation_id, answer.error_code, session_id=answer.session_id))
