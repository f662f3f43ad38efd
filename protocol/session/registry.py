"""Every fetch session that a role translates, by leader and session id: found, counted, bounded, ended.

Sessions outlive connections, as they do at a leader. One that is ended is unknown from then on; if the leader may
still hold it, the follower's next full request is made to close it there: a leader's cache of sessions may be as
small as one (max.incremental.fetch.session.cache.slots).

Must not know requests or answers, nor when a session is to end, but for too many and too old ones; time is an
argument. Invariant: at most `most_sessions`, and of more than one at most `most_partitions` partitions.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic

from ..fetch.tables import NO_SESSION_ID
from .requests import E

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ..work_in_steps import Steps
    from .requests import SessionRequest
    from .state import FetchSession

MAX_SESSIONS = 1000
"""The default of max.incremental.fetch.session.cache.slots: no leader holds more."""
MAX_PARTITIONS = 200_000
"""The most partitions of all sessions together; bounds the memory."""
IDLE_SECONDS = 600.0
"""How long a session may be unused. A follower fetches every replica.fetch.wait.max.ms; leaders may evict a session
that is not used for 120 s."""


class KnownSession(Generic[E]):
    """A session that is found by its leader and id, and who uses it."""

    __slots__ = ("busy", "counted", "leader", "session", "used_at", "user")

    def __init__(self, session: FetchSession[E], *, leader: Hashable, user: object, used_at: float) -> None:
        self.session = session
        self.leader = leader
        self.user = user
        """The connection of the last request."""
        self.used_at = used_at
        self.busy = False
        """True while a request is under way."""
        self.counted = 0
        """The number of partitions, as the registry counts them."""

    @property
    def key(self) -> tuple[Hashable, int]:
        return (self.leader, self.session.session_id)


class FetchSessions(Generic[E]):
    """One per role. `leader` tells leaders apart: each numbers its sessions by itself."""

    def __init__(
        self,
        *,
        most_sessions: int = MAX_SESSIONS,
        most_partitions: int = MAX_PARTITIONS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._most_sessions = most_sessions
        self._most_partitions = most_partitions
        self._idle_seconds = idle_seconds
        self._known: OrderedDict[tuple[Hashable, int], KnownSession[E]] = OrderedDict()
        """The sessions, the one that was used longest ago first."""
        self._abandoned: dict[Hashable, dict[int, None]] = {}
        """Ids of sessions that have ended here and may still take a place in the leader's cache."""
        self.partitions = 0
        """The number of partitions of all sessions together."""

    def __len__(self) -> int:
        return len(self._known)

    def find(self, leader: Hashable, session_id: int) -> KnownSession[E] | None:
        return self._known.get((leader, session_id))

    def at(self, leader: Hashable) -> list[KnownSession[E]]:
        """Return all sessions at this leader. This looks at every session of the role."""
        return [known for known in self._known.values() if known.leader == leader]

    def is_current(self, known: KnownSession[E]) -> bool:
        return self._known.get(known.key) is known

    def open(self, known: KnownSession[E]) -> None:
        """Open a session under an id that a leader has given out.

        A session that was known by the same id before has ended.
        """
        self.end(self._known.get(known.key))
        self.closed(*known.key)
        self._known[known.key] = known
        self._count(known, len(known.session.partitions))
        self._trim()

    def use(self, known: KnownSession[E], request: SessionRequest[E], *, user: object, now: float) -> Steps[None]:
        """Continue the session with `request`, on the connection of `user`."""
        known.user = user
        known.used_at = now
        known.busy = True
        self._known.move_to_end(known.key)
        yield from known.session.merge_request(request)
        # While a long request is taken the session may be ended by others.
        if self.is_current(known):
            self._count(known, len(known.session.partitions))
            self._trim()

    def end(self, known: KnownSession[E] | None) -> None:
        """Forget the session. A follower that goes on with it is told that the leader does not know it."""
        if known is not None and self.is_current(known):
            del self._known[known.key]
            self._count(known, 0)

    def _count(self, known: KnownSession[E], partitions: int) -> None:
        self.partitions += partitions - known.counted
        known.counted = partitions

    def end_idle(self, now: float) -> None:
        while self._known and (oldest := self._oldest()).used_at < now - self._idle_seconds:
            self.end(oldest)

    def abandon(self, leader: Hashable, session_id: int) -> None:
        """End the session, known or not, and have the leader close it when it is asked for another."""
        self.end(self.find(leader, session_id))
        if session_id > NO_SESSION_ID:
            ids = self._abandoned.setdefault(leader, {})
            ids[session_id] = None
            if len(ids) > self._most_sessions:
                del ids[next(iter(ids))]

    def closed(self, leader: Hashable, session_id: int) -> None:
        """Forget a session that the leader closes, or whose id it has given to another."""
        ids = self._abandoned.get(leader)
        if ids is not None:
            ids.pop(session_id, None)
            if not ids:
                del self._abandoned[leader]

    def take_abandoned(self, leader: Hashable) -> int:
        """Return a session for the leader to close with a full request; 0 if there is none."""
        session_id = next(iter(self._abandoned.get(leader, ())), NO_SESSION_ID)
        self.closed(leader, session_id)
        return session_id

    def _oldest(self) -> KnownSession[E]:
        return next(iter(self._known.values()))

    def _trim(self) -> None:
        """End the sessions used longest ago until the rest is within the limits. The one used last stays in any case,
        however large it is."""
        while len(self._known) > 1 and (
            len(self._known) > self._most_sessions or self.partitions > self._most_partitions
        ):
            self.end(self._oldest())
