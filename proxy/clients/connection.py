"""A connection knows which entities it is of, and until when it is muted (KIP-219).

    Produce ── charged when it has gone on ─┐
    Fetch ──── charged when its answer      ├─▶ over quota: muted for the throttle time, of which the answers in
               begins to go on ─────────────┘    flight tell what is left (`throttle_time_ms`)
    Fetch, while its entity is over quota ──▶ answered here, where that is right; nothing is charged

Nothing is read from a muted connection; answers to what was read before go on. A broker reads the next request after
it has answered the last one, and begins to mute then. Here several may be in flight, so the mute begins when the bytes
are charged; but a Fetch waits for the answer to the one before it, as nobody knows what that will bring. Pure: time is
an argument. Invariant: the mute of a connection ends no later than its entities' debts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from protocol.fetch.request import MAX_INT32

from ..quotas.client_entity import ANONYMOUS
from ..quotas.keys import ClientTraffic
from .session_epochs import SessionEpochs

if TYPE_CHECKING:
    from .throttle import ClientThrottle, Entity

MIN_THROTTLE_SECONDS = 0.001
"""The least throttle time, since the field counts milliseconds."""


class ClientConnection:
    """The state of one connection of the listener."""

    __slots__ = (
        "_client_id", "_entities", "_generation", "_throttle", "_user", "_was_answered", "epochs",
        "last_response_bytes", "muted_until",
    )  # fmt: skip

    def __init__(self, throttle: ClientThrottle, user: str | None = ANONYMOUS) -> None:
        self._throttle = throttle
        self._user = user
        self._client_id: str | None = None
        self._entities: dict[ClientTraffic, Entity | None] = {}
        """The entities of the user and `_client_id` in `_generation`, as far as somebody asked."""
        self._generation = throttle.generation
        self.epochs = SessionEpochs()
        self.last_response_bytes = 0
        """Size of the last answer to a Fetch: what the next one would probably bring."""
        self._was_answered = False
        """True if its last Fetch was answered here because its entity was over quota. The next one goes on where
        connections take turns: it comes after the connection that made the debt, which would be first each time."""
        self.muted_until = -math.inf
        """The time at which requests are read again."""

    @property
    def user(self) -> str | None:
        """The authenticated user, as the broker names it; None: it is not known."""
        return self._user

    def authenticated(self, user: str | None) -> None:
        """Charge to another user from now on."""
        self._user = user
        self._entities.clear()

    def entity(self, client_id: str | None, traffic: ClientTraffic, now: float) -> Entity | None:
        """Return the entity that a request of this client is charged to; None: it has no quota."""
        if client_id != self._client_id or self._generation != self._throttle.generation:
            self._client_id, self._generation = client_id, self._throttle.generation
            self._entities.clear()
        elif traffic in self._entities:
            return self._entities[traffic]
        entity = self._throttle.entity(self._user, client_id, traffic, now)
        if entity is None and traffic is ClientTraffic.CONSUMER and self._throttle.uplink.is_set:
            entity = self._throttle.unbounded
        self._entities[traffic] = entity
        return entity

    def charge(self, entity: Entity, size: int, now: float) -> None:
        """Charge bytes that go on, and mute the connection for as long as its entity is over quota."""
        self._throttle.count(entity, size, now)
        uplink, mutes = self._throttle.uplink, self._throttle.enforce
        seconds = entity.budget.throttle_seconds(now) if mutes else 0.0
        if uplink.is_set and entity.traffic is ClientTraffic.CONSUMER:
            uplink.charge_client(self, size, now, mutes=mutes)
            seconds = max(seconds, uplink.throttle_seconds(now, size=size)) if mutes else 0.0
        self._mute(entity, seconds, now)

    def largest_response_bytes(self, entity: Entity, now: float) -> int:
        """Return the most that a consumer is to be sent at once."""
        most = entity.budget.largest_response_bytes
        return int(min(most, self._throttle.uplink.largest_response_bytes(now)))

    def answer_session(
        self, entity: Entity, session_id: int, epoch: int, *, lists_nothing: bool, now: float
    ) -> int | None:
        """Return the session id with which a consumer's Fetch is to be answered here, without records, because its
        entity is over quota; None: it is to go on.

        If it is answered, the connection is muted as if the answer were as large as the last one.
        """
        budget = entity.budget
        has_turn = self._was_answered and budget.takes_turns
        if has_turn or not self._throttle.enforce or budget.throttle_seconds(now) < MIN_THROTTLE_SECONDS:
            self._was_answered = False
            return None
        answered = self.epochs.answers_here(session_id, epoch, lists_nothing=lists_nothing)
        if answered is not None:
            self._was_answered = True
            self._mute(entity, budget.throttle_seconds(now, more=self.last_response_bytes), now)
        return answered

    def throttle_time_ms(self, now: float) -> int:
        """Return how long the connection is still muted, as an answer tells it."""
        if self.muted_until <= now:
            return 0
        return min(math.ceil((self.muted_until - now) * 1000), MAX_INT32)

    def quotas_changed(self, now: float) -> None:
        """Shorten the mute to what the quotas in force now ask for."""
        if self.muted_until <= now:
            return
        seconds = 0.0
        if self._throttle.enforce:
            entities = [self.entity(self._client_id, traffic, now) for traffic in tuple(self._entities)]
            seconds = max((each.budget.throttle_seconds(now) for each in entities if each is not None), default=0.0)
            seconds = max(seconds, self._throttle.uplink.throttle_seconds(now))
        self.muted_until = min(self.muted_until, now + seconds)

    def _mute(self, entity: Entity, seconds: float, now: float) -> None:
        until = now + seconds
        if seconds < MIN_THROTTLE_SECONDS or until <= self.muted_until:
            return
        self._throttle.throttle_seconds[entity.label, entity.traffic] += until - max(self.muted_until, now)
        self.muted_until = until
