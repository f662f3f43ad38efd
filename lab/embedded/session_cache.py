"""A leader's fetch sessions as Kafka keeps them: FetchSessionCache, FetchManager and its contexts, of 3.9.

A request becomes a context. The context names the partitions to read, in the order in which they are read, and makes
the response from what was read. Left out: shards (2 in a broker, by id), preferred read replicas (consumers only), the
locks. Must not know sockets or logs. Time is an argument, in seconds; ids are as random as those that the caller makes.

Invariant: an incremental response holds a partition exactly if there is something new to tell: records, an error, a
diverging epoch, or another high watermark or log start offset than the follower was told last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from protocol.fetch.tables import (
    FINAL_EPOCH,
    FIRST_VERSION_WITH_TOPIC_IDS,
    INITIAL_EPOCH,
    NO_SESSION_ID,
)
from protocol.session.requests import (
    FETCH_SESSION_ID_NOT_FOUND,
    MAX_EPOCH,
)

from .session_values import Ask, Read, SessionResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.session.requests import PartitionKey, SessionRequest

INVALID_FETCH_SESSION_EPOCH = 71
FETCH_SESSION_TOPIC_ID_ERROR = 106
UNKNOWN_OFFSET = -1


def epoch_after(epoch: int) -> int:
    """Return the next epoch, as Kafka's FetchMetadata.nextEpoch does."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == MAX_EPOCH else epoch + 1


class CachedPartition:
    """A partition of a session: what the follower asked with last, and what it was told last."""

    __slots__ = ("ask", "high_watermark", "log_start_offset")

    def __init__(self, ask: Ask, told: Read | None = None) -> None:
        self.ask = ask
        self.high_watermark = UNKNOWN_OFFSET if told is None else told.high_watermark
        self.log_start_offset = UNKNOWN_OFFSET if told is None else told.log_start_offset

    def must_tell(self, read: Read) -> bool:
        """Tell whether the follower has to hear of this, and note what it hears. After an error it is told the high
        watermark in the next response, whatever that is."""
        must = (
            read.records_size > 0
            or read.high_watermark != self.high_watermark
            or read.log_start_offset != self.log_start_offset
            or bool(read.error_code)
            or read.is_diverging
        )
        self.high_watermark = UNKNOWN_OFFSET if read.error_code else read.high_watermark
        self.log_start_offset = read.log_start_offset
        return must


class CachedSession:
    """A session of the cache. `partitions` in the order in which they are read."""

    def __init__(self, session_id: int, *, uses_topic_ids: bool, is_follower: bool, created_at: float) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.is_follower = is_follower
        self.partitions: dict[PartitionKey, CachedPartition] = {}
        self.epoch = epoch_after(INITIAL_EPOCH)
        self.created_at = self.used_at = created_at
        self.is_evictable = not is_follower
        """Whether a follower's new session may take its place; decided when this session was used last."""
        self.cached_size = 0

    def update(self, request: SessionRequest[Ask]) -> None:
        for key, ask in request.listed.items():
            if key in self.partitions:
                self.partitions[key].ask = ask
            else:
                self.partitions[key] = CachedPartition(ask)
        for key in request.forgotten:
            self.partitions.pop(key, None)

    def worth(self) -> tuple[bool, int, int]:
        """Return Kafka's EvictableKey: the session with the least one is removed first."""
        return (self.is_follower, self.cached_size, self.session_id)


class Context(Protocol):
    """A request on its way through the leader."""

    @property
    def partitions(self) -> Mapping[PartitionKey, Ask]:
        """The partitions to read, in this order."""

    def respond(self, reads: Mapping[PartitionKey, Read]) -> SessionResponse:
        """Make the response of what was read of each of `partitions`."""


class ErrorContext:
    """A context that reads nothing."""

    def __init__(self, error_code: int) -> None:
        self.partitions: dict[PartitionKey, Ask] = {}
        self._error_code = error_code

    def respond(self, reads: Mapping[PartitionKey, Read]) -> SessionResponse:
        del reads
        return SessionResponse(NO_SESSION_ID, error_code=self._error_code)


class SessionlessContext:
    """The context of a request that wants no session, or has emptied its session."""

    def __init__(self, request: SessionRequest[Ask]) -> None:
        self.partitions = dict(request.listed)

    def respond(self, reads: Mapping[PartitionKey, Read]) -> SessionResponse:
        return SessionResponse(NO_SESSION_ID, dict(reads))


class FullContext:
    """Answers a full request. The session is created together with the answer, from the partitions in it."""

    def __init__(self, cache: FetchSessionCache, request: SessionRequest[Ask], now: float, *, follower: bool) -> None:
        self.partitions = dict(request.listed)
        self._cache = cache
        self._uses_topic_ids = request.version >= FIRST_VERSION_WITH_TOPIC_IDS
        self._now = now
        self._is_follower = follower

    def respond(self, reads: Mapping[PartitionKey, Read]) -> SessionResponse:
        cached = {key: CachedPartition(self.partitions[key], read) for key, read in reads.items()}
        session = self._cache.create(
            cached, uses_topic_ids=self._uses_topic_ids, is_follower=self._is_follower, now=self._now
        )
        return SessionResponse(NO_SESSION_ID if session is None else session.session_id, dict(reads))


class IncrementalContext:
    """Reads all partitions of the session, and tells what is new."""

    def __init__(self, session: CachedSession) -> None:
        self._session = session
        self._epoch = session.epoch
        self.partitions = {key: cached.ask for key, cached in session.partitions.items()}

    def respond(self, reads: Mapping[PartitionKey, Read]) -> SessionResponse:
        """Respond with what was read; a partition with records goes to the end, so others go first next time
        (KAFKA-12330)."""
        session = self._session
        if session.epoch != self._epoch:
            return SessionResponse(session.session_id, error_code=INVALID_FETCH_SESSION_EPOCH)
        told: dict[PartitionKey, Read] = {}
        for key, read in reads.items():
            cached = session.partitions[key]
            if cached.must_tell(read):
                told[key] = read
                if read.records_size > 0:
                    session.partitions[key] = session.partitions.pop(key)
        return SessionResponse(session.session_id, told)


class FetchSessionCache:
    """`slots` is max.incremental.fetch.session.cache.slots, `evict_seconds` 120 in Kafka. `emptied` counts sessions
    that ended because their last partition was forgotten."""

    def __init__(self, new_id: Callable[[], int], *, slots: int = 1000, evict_seconds: float = 120.0) -> None:
        self.sessions: dict[int, CachedSession] = {}
        self.emptied = 0
        self._new_id = new_id
        self._slots = slots
        self._evict_seconds = evict_seconds

    def context(self, request: SessionRequest[Ask], now: float, *, is_follower: bool = True) -> Context:
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self.sessions.pop(request.session_id, None)
            if request.session_epoch == FINAL_EPOCH:
                return SessionlessContext(request)
            return FullContext(self, request, now, follower=is_follower)
        session = self.sessions.get(request.session_id)
        if session is None:
            return ErrorContext(FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return ErrorContext(INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != (request.version >= FIRST_VERSION_WITH_TOPIC_IDS):
            return ErrorContext(FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(request)
        if not session.partitions:
            del self.sessions[session.session_id]
            self.emptied += 1
            return SessionlessContext(request)
        self._touch(session, now)
        session.epoch = epoch_after(session.epoch)
        return IncrementalContext(session)

    def create(
        self, cached: dict[PartitionKey, CachedPartition], *, uses_topic_ids: bool, is_follower: bool, now: float
    ) -> CachedSession | None:
        """Return the new session; None if there is no room for it."""
        if len(self.sessions) >= self._slots and not self._evict((is_follower, len(cached), NO_SESSION_ID), now):
            return None
        session_id = self._new_id()
        while session_id == NO_SESSION_ID or session_id in self.sessions:
            session_id = self._new_id()
        session = CachedSession(session_id, uses_topic_ids=uses_topic_ids, is_follower=is_follower, created_at=now)
        session.partitions = cached
        self.sessions[session_id] = session
        self._touch(session, now)
        return session

    def _touch(self, session: CachedSession, now: float) -> None:
        session.used_at = now
        session.cached_size = len(session.partitions)
        session.is_evictable = not session.is_follower or now - session.created_at > self._evict_seconds

    def _evict(self, worth: tuple[bool, int, int], now: float) -> bool:
        """Make room for a session of this worth. A session that was not used for long is removed first, else one of
        less worth."""
        if not self.sessions:
            return False
        stale = min(self.sessions.values(), key=lambda session: (session.used_at, session.session_id))
        if now - stale.used_at > self._evict_seconds:
            del self.sessions[stale.session_id]
            return True
        least = min(
            (s for s in self.sessions.values() if self._yields(s, worth)), key=CachedSession.worth, default=None
        )
        if least is None or worth < least.worth():
            return False
        del self.sessions[least.session_id]
        return True

    def _yields(self, session: CachedSession, worth: tuple[bool, int, int]) -> bool:
        """True if a session may be removed for a new one of this worth.

        For a consumer's, only a session that has been used for long enough may be removed, even if that is a consumer's
        as well.
        """
        is_follower = worth[0]
        if is_follower:
            return session.is_evictable
        return session.used_at - session.created_at > self._evict_seconds
