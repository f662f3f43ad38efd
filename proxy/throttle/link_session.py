"""One connection's requests within fetch sessions (KIP-227; Fetch v7 and later), and the end of a session.

Pure. Knows the session's translation and the link's replicas, no budget.

Invariant: a session goes on only while each of its selected replicas is known here; else it is ended, and the follower
starts a new one with a full request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.fetch.request import Asked, entry_bytes
from protocol.session.requests import LocalAnswer, SessionRequest
from protocol.session.state import FetchSession
from protocol.session.translator import SessionTranslator
from protocol.work_in_steps import LIGHT, parts

from .decision import error_answer

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from protocol.fetch.request import FetchRequest
    from protocol.session.requests import PartitionKey
    from protocol.session.state import SessionState
    from protocol.session.translator import Translation
    from protocol.work_in_steps import Steps

    from .decision import Answer
    from .replicas import Replicas
    from .role_throttle import RoleThrottle


class LinkSession:
    """`translator`: finds and opens the sessions of the role. `sent`: the request of a session that was forwarded last;
    the link's replicas are those of that session.

    Invariant: while `Replicas.moved` is kept, the leader's session lacks exactly the replicas that are behind and not
    in `_asked`, but for those in `moved`.
    """

    __slots__ = ("_asked", "_replicas", "_throttle", "sent", "translator")

    def __init__(self, throttle: RoleThrottle, replicas: Replicas, leader: Hashable) -> None:
        self._throttle = throttle
        self._replicas = replicas
        self.translator: SessionTranslator[Asked] = SessionTranslator(throttle.sessions, leader)
        self.sent: Translation[Asked] | None = None
        self._asked: Collection[PartitionKey] = ()
        """The replicas that the last request was sent for although others were left out."""

    def state(self) -> SessionState[Asked] | None:
        """Return the session that this connection used last, if it is translated and has not ended."""
        session = None if self.sent is None else self.sent.session_at_rest()
        return None if session is None else session.state()

    def restore(self, state: SessionState[Asked] | None, now: float) -> None:
        """Restore the session of a link in another process."""
        if state is not None:
            self.sent = self.translator.resume(FetchSession.from_state(state), now)

    def process_request(self, frame: bytes, request: FetchRequest, now: float) -> Steps[Translation[Asked] | Answer]:
        """Process the follower's request, and pass it to the link's replicas; or answer that its session is over."""
        listed = {}
        for part in parts(request.entries):
            for e in part:
                listed[e.topic, e.partition] = Asked(e.topic, entry_bytes(frame, e), e.partition_max_bytes)
            if part is not request.entries:
                yield
        version = request.head.api_version
        taken = yield from self.translator.translate(
            SessionRequest(version, listed, request.session_id, request.session_epoch, request.forgotten), now
        )
        if isinstance(taken, LocalAnswer):
            return error_answer(frame, request, taken)
        replicas = self._replicas
        if len(taken.partitions) > self._throttle.remembered.most_of_connection:
            # The session has grown beyond what is remembered of a connection. The follower's next request is a full
            # one, and a full request of so many partitions is not processed: it passes untouched.
            return self._refuse(frame, request, taken)
        if taken.request.is_full:
            replicas.reselect()
            yield from replicas.asked(request.entries, now)
        elif self._goes_on(taken):
            yield from replicas.asked_more(request.entries, request.forgotten, now)
        else:
            return self._refuse(frame, request, taken)
        return taken

    def leave_out(
        self, translation: Translation[Asked], asked: Collection[PartitionKey]
    ) -> Steps[tuple[Collection[PartitionKey], Collection[PartitionKey]]]:
        """Return what a request has to omit and to restore so that the leader is asked for none of the replicas that
        are behind but for those `asked`. It costs what has changed since the last request, not what is behind."""
        replicas, absent = self._replicas, translation.absent
        behind, moved = replicas.behind, replicas.moved
        if moved is None or translation.request.is_full:
            keys = [*behind, *absent]
        else:
            keys = [*{**moved, **dict.fromkeys(self._asked), **dict.fromkeys(asked)}]
        replicas.moved, self._asked = {}, asked
        omitted: dict[PartitionKey, None] = {}
        restored: dict[PartitionKey, None] = {}
        for part in parts(keys, LIGHT):
            for key in part:
                if key in behind and key not in asked:
                    if key not in absent:
                        omitted[key] = None
                elif key in absent:
                    restored[key] = None
            if part is not keys:
                yield
        return omitted, restored

    def restore_all(self, translation: Translation[Asked]) -> Collection[PartitionKey]:
        """Return what a request has to restore that omits nothing."""
        self._replicas.moved = None
        return tuple(translation.absent)

    def _refuse(self, frame: bytes, request: FetchRequest, taken: Translation[Asked]) -> Answer:
        taken.lost()
        return error_answer(frame, request, self.translator.refuse(request.session_id))

    def _goes_on(self, taken: Translation[Asked]) -> bool:
        """True if each selected replica of the session is known.

        If one is not, only a new session tells its high watermark: within a session a leader does not repeat one.
        """
        if self._throttle.is_idle or self.sent is None or taken.session is not self.sent.session:
            return False
        if not self._replicas.reselect():
            return True
        known, selects = self._replicas.known, self._replicas.selects
        return all(key in known or not selects(key) for key in taken.partitions)
