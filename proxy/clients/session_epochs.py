"""The epochs of a connection's fetch session (KIP-227) where some requests are answered here.

    client's epoch      1   2   3   4   5
    answered here           x   x
    broker's epoch      1           2   3      a request goes on with its epoch less the number answered here

Only requests that change nothing are answered here: those of a session that list no partition, and full ones that
close no session. So the broker's session lacks nothing. If a client goes on with its session on another connection,
where this number is not known, the broker answers INVALID_FETCH_SESSION_EPOCH, and the client starts again with a full
request.

Pure. Invariant: of a session that began on this connection, the broker sees every epoch once, in order.
"""

from __future__ import annotations

from protocol.fetch.tables import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION_ID
from protocol.session.requests import MAX_EPOCH


class SessionEpochs:
    """Counts the requests of the present session that were answered here."""

    __slots__ = ("answered", "session_id")

    def __init__(self, session_id: int = NO_SESSION_ID, answered: int = 0) -> None:
        self.session_id = session_id
        self.answered = answered

    def answers_here(self, session_id: int, epoch: int, *, lists_nothing: bool) -> int | None:
        """Return the session id to answer a request with, if it may be answered here without the broker, and count it;
        None if it must go on."""
        if session_id == NO_SESSION_ID and epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            return NO_SESSION_ID  # as a throttling broker does: the client asks for everything again
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH) or not lists_nothing:
            return None
        self._take(session_id)
        self.answered += 1
        return session_id

    def forwarded(self, session_id: int, epoch: int) -> int:
        """Return the epoch with which a request goes on."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self.session_id, self.answered = NO_SESSION_ID, 0  # this session ends, or another begins
            return epoch
        self._take(session_id)
        return (epoch - 1 - self.answered) % MAX_EPOCH + 1 if self.answered else epoch

    def _take(self, session_id: int) -> None:
        if session_id != self.session_id:
            self.session_id, self.answered = session_id, 0
