"""Translates between a follower's fetch sessions and those that the sidecar owns at the leader.

    unknown ──(0, 0), (id, 0)──▶ opening ──answered with an id──▶ READY ◀───────────────────┐
       ▲                            │                               │ (id, n), n as expected │
       │◀──answered without an id───┘                               ▼                        │
       │                                                          TAKEN ──all omitted──answered here
       │                                                            │ forwarded              │
       │                                                            ▼                        │
       └──────────────── ended ◀── any doubt ───────────────── ASKED ──answered, same id─────┘

A session is ended, never handed back: if the follower's requests went on untranslated, the partitions that were omitted
last would be missing for ever, without an error (measured). An ended or unknown id is answered with
FETCH_SESSION_ID_NOT_FOUND, at which a follower starts again with a full request at once. Doubts are: an epoch that is
not the expected one (a request that is sent again), a second request while one is under way, another version (entries
are kept as they were encoded), an answer that never came, an error, session id 0 or another one in an answer, an entry
that was not asked for, bytes that were not understood, (id, 0) and (id, -1), a session too many or too old.

A follower may go on with its session on another connection. A request that was under way when a connection ended counts
as one whose answer never came.

Must not know bytes, quotas or clocks. Invariant: of a session that goes on, both ends' next epochs are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from ..fetch.tables import FINAL_EPOCH, FIRST_VERSION_WITH_SESSIONS, INITIAL_EPOCH, NO_SESSION_ID
from .registry import KnownSession
from .requests import (
    FETCH_SESSION_ID_NOT_FOUND,
    E,
    LocalAnswer,
    SessionRequest,
)
from .state import FetchSession

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Set

    from ..work_in_steps import Steps
    from .registry import FetchSessions
    from .requests import Choice, PartitionKey, Upstream


class SessionTranslator(Generic[E]):
    """One connection's way into the sessions of its role."""

    def __init__(self, sessions: FetchSessions[E], leader: Hashable) -> None:
        self._sessions = sessions
        self.leader = leader
        self.closed = False
        self._began = False
        self._passes = False
        """True if the session that the connection goes on with began with a request that passed unseen, so the sidecar
        never omitted anything from it. A session that was translated and has ended is no such session: at the leader it
        may lack what was omitted last, even if the epochs happen to be equal."""

    def state(self) -> tuple[bool, bool]:
        """Return what another process is to `restore`: whether anything came, and whether its session passes unseen."""
        return self._began, self._passes

    def restore(self, *, began: bool, passes: bool) -> None:
        self._began, self._passes = began, passes

    def resume(self, session: FetchSession[E], now: float) -> Translation[E]:
        """Continue a session of another process. Return its last request, as forwarded and answered."""
        known = KnownSession(session, leader=self.leader, user=self, used_at=now)
        self._sessions.open(known)
        request: SessionRequest[E] = SessionRequest(session.version, {}, session.session_id, session.follower_epoch)
        return Translation(self._sessions, self, request, known=known, now=now)

    def translate(self, request: SessionRequest[E], now: float) -> Steps[Translation[E] | LocalAnswer]:
        """Process the follower's next request: to be decided, perhaps after a while, or to be answered with an
        error."""
        sessions = self._sessions
        self._began, self._passes = True, False
        sessions.end_idle(now)
        known = sessions.find(self.leader, request.session_id)
        if request.is_full:
            sessions.end(known)
            return Translation(sessions, self, request, now=now)
        if known is None or known.busy or not _goes_on(known.session, request):
            return self.refuse(request.session_id)
        yield from sessions.use(known, request, user=self, now=now)
        return Translation(sessions, self, request, known=known, now=now)

    def refuse(self, session_id: int) -> LocalAnswer:
        """End this session, known or not."""
        self._sessions.abandon(self.leader, session_id)
        return LocalAnswer(FETCH_SESSION_ID_NOT_FOUND, NO_SESSION_ID)

    def may_relay(self, session_id: int, session_epoch: int) -> bool:
        """Return True if a request may pass unseen, as long as nothing can be throttled; `translate` it if not.

        Not if its session is translated, or was until it ended here; nor if the connection begins in the middle of a
        session: the process before this one may have translated that.
        """
        if self._sessions.find(self.leader, session_id) is not None:
            return False
        # Noted only if it passes: a follower that is refused may ask again before the request is taken.
        if session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._began = self._passes = True
        return self._passes

    def undecoded(self, session: tuple[int, int] | None = None) -> bool:
        """End the sessions that a request that is not understood may go on with; return True if there may be any.

        `session` is the id and epoch that it names, where so much of it can be read. If there may be any the request
        must not go on: the leader would take it if the epochs happen to be equal, and if nothing after it is understood
        either, what was omitted last is left behind for ever. End the connection; the follower begins the next one with
        a full request.
        """
        began, self._began = self._began, True
        begins = not began if session is None else session[1] in (INITIAL_EPOCH, FINAL_EPOCH)
        doubtful = [
            known
            for known in self._sessions.at(self.leader)
            if known.user is self or (not began and isinstance(known.user, SessionTranslator) and known.user.closed)
        ]
        for known in doubtful:
            self._sessions.end(known)
        if doubtful:
            return True
        self._passes = self._passes or begins
        return session is not None and not self._passes

    def close(self, *, for_good: bool = False) -> None:
        """Release the sessions of a connection that has ended.

        What is under way is lost; the follower may go on with the rest on another, unless they end `for_good`.
        """
        self.closed = True
        for known in self._sessions.at(self.leader):
            if known.user is self and (known.busy or for_good):
                self._sessions.end(known)


def _goes_on(session: FetchSession[E], request: SessionRequest[E]) -> bool:
    return session.follower_epoch == request.session_epoch and session.version == request.version


class Translation(Generic[E]):
    """One request, from when it was taken until its answer is through.

    `decide` is called once, or never if the request is `lost` before. If it is forwarded, either `answered` follows, or
    `lost`, or one after the other. Nothing is to be called once the answer has gone on as a whole.
    """

    __slots__ = ("_known", "_now", "_opening", "_sessions", "_translator", "partitions", "request")

    def __init__(
        self,
        sessions: FetchSessions[E],
        translator: SessionTranslator[E],
        request: SessionRequest[E],
        *,
        known: KnownSession[E] | None = None,
        now: float,
    ) -> None:
        self._sessions = sessions
        self._translator = translator
        self._known = known
        self._opening: FetchSession[E] | None = None
        """The session that the answer may open, if the request is a full one that was forwarded."""
        self._now = now
        self.request = request
        self.partitions: Mapping[PartitionKey, E] = request.listed if known is None else known.session.partitions
        """All partitions that the follower wants now, whether this request lists them or not."""

    @property
    def session(self) -> object | None:
        """Tells sessions apart: the one that the request goes on with, or that its answer has opened."""
        return None if self._known is None else self._known.session

    def session_at_rest(self) -> FetchSession[E] | None:
        """Return the session of this request, if it has one that goes on and nothing of it is under way."""
        known = self._known
        return None if known is None or known.busy or not self._sessions.is_current(known) else known.session

    @property
    def absent(self) -> Set[PartitionKey]:
        """The partitions that the session lacks at the leader; none before a full request."""
        session = self._opening if self._known is None else self._known.session
        return frozenset() if session is None else session.absent

    def answer_here(self) -> LocalAnswer:
        """Answer without asking the leader, since everything that the follower wants is omitted."""
        if self._known is None:
            self._sessions.abandon(self._translator.leader, self.request.session_id)
            return LocalAnswer(0, NO_SESSION_ID)
        if not self._sessions.is_current(self._known):
            return self._translator.refuse(self.request.session_id)
        self._known.busy = False
        return self._known.session.skip()

    def decide(self, choice: Choice) -> Steps[Upstream[E] | LocalAnswer]:
        """Return what to ask the leader; or what to answer here, if nothing is left to ask for or the session is over.

        An answer without error to a full request must hold everything it asked for: it is the caller's to complete,
        the leader's with what is omitted, the local one with all.
        """
        if self._known is None:
            return (yield from self._decide_full(choice))
        if not self._sessions.is_current(self._known):
            return self._translator.refuse(self.request.session_id)
        asks = yield from self._known.session.forward(self.request, choice)
        self._known.busy = not isinstance(asks, LocalAnswer)
        return asks

    def answered(self, error_code: int, session_id: int) -> None:
        """Note the head of the leader's answer, which goes to the follower with both values as they are.

        To be called before the answer goes on: the follower may ask again as soon as it has all of it.
        """
        if self._known is not None:
            self._known.busy = False
            if error_code or session_id != self.request.session_id:
                self._sessions.end(self._known)
        elif session_id > NO_SESSION_ID and self.request.session_epoch == INITIAL_EPOCH and not error_code:
            if (session := self._opening) is None:
                return  # not what was decided on here
            session.opened(session_id)
            self._known = KnownSession(
                session, leader=self._translator.leader, user=self._translator, used_at=self._now
            )
            self._sessions.open(self._known)

    def expects(self, key: PartitionKey) -> bool:
        """Return True if the leader was asked for this partition; if not, its session is not what it should be: end it.

        To be called with every entry of an answer without error.
        """
        if key in self.partitions and key not in self.absent:
            return True
        self._sessions.end(self._known)
        return False

    def lost(self) -> None:
        """End the session: there is no answer, or not all of it got through, or it was not understood."""
        self._sessions.end(self._known)

    def _decide_full(self, choice: Choice) -> Steps[Upstream[E] | LocalAnswer]:
        request, sessions, leader = self.request, self._sessions, self._translator.leader
        session_id, partitions = request.session_id, request.listed
        if 0 < len(partitions) <= len(choice.omitted) and all(key in choice.omitted for key in partitions):
            return self.answer_here()
        if session_id == NO_SESSION_ID and request.version >= FIRST_VERSION_WITH_SESSIONS:
            session_id = sessions.take_abandoned(leader)
        else:
            sessions.closed(leader, session_id)
        self._opening = FetchSession(request.version, session_id, request.session_epoch)
        yield from self._opening.merge_request(request)
        return (yield from self._opening.forward(request, choice))
