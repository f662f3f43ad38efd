"""A connection knows which entities it is of, and until when it is muted (KIP-219).

    Produce ── charged as it goes on ───────┐
    Fetch ──── charged when its answer      ├─▶ over quota: muted for the throttle time, of which the answers in
               begins to go on ─────────────┘    flight tell what is left (`throttle_time_ms`)
    any of them, while its entity is in debt ──▶ stands in line before it goes on (`waits`); a Fetch is answered here,
                                                 where that is right, and nothing is charged

Nothing is read from a connection that is muted or stands in line; answers to earlier requests go on. A broker reads
the next request after it has answered the last, and begins to mute then. Here several may be in flight, so the mute
begins when the bytes are charged; but a Fetch waits for the answer to the one before it, as nobody knows what that will
bring. Pure: time is an argument. Invariant: the mute of a connection ends no later than its entities' debts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from protocol.fetch.request import MAX_INT32

from ..quotas.client_entity import ANONYMOUS
from ..quotas.keys import ClientTraffic
from .entity import MAX_NAME_CHARACTERS
from .session_epochs import SessionEpochs

if TYPE_CHECKING:
    from collections.abc import Callable

    from .entity import Entity
    from .throttle import ClientThrottle

SESSION_MARGIN_SECONDS = 0.25
"""How long before the end of a client's session a request that stands in line goes on. A broker closes the connection
on one that comes later, although the client sent it in time."""
MIN_THROTTLE_SECONDS = 0.001
"""The least throttle time, since the field counts milliseconds."""


def _nothing() -> None:
    pass


class ClientConnection:
    """The state of a connection of the listener. `woken` is called when a mute ends before its time."""

    __slots__ = (
        "__weakref__", "_answer_began", "_bounded", "_charged_until", "_client_id", "_counted_until", "_entities",
        "_generation", "_muted_for", "_throttle", "_user", "_waits_for", "_waits_since", "_waits_until",
        "_was_answered", "_woken", "epochs", "is_authenticated", "last_response_bytes", "muted_since", "muted_until",
        "session_ends_at", "told_until",
    )  # fmt: skip

    def __init__(
        self, throttle: ClientThrottle, user: str | None = ANONYMOUS, woken: Callable[[], None] = _nothing
    ) -> None:
        self._throttle = throttle
        self._user = user
        self._woken = woken
        self.session_ends_at = math.inf
        """The end of its SASL session, unless the client authenticates again before (KIP-368)."""
        self.is_authenticated = False
        """True once the broker has accepted the client's authentication by SASL."""
        self._client_id: str | None = None
        self._entities: dict[ClientTraffic, Entity | None] = {}
        """The entities of the user and `_client_id` in `_generation`, as far as somebody asked."""
        self._bounded: dict[ClientTraffic, bool] = {}
        """True if they have quotas."""
        self._generation = throttle.generation
        self.epochs = SessionEpochs()
        self.last_response_bytes = 0
        """Size of the last answer to a Fetch: the probable size of the next."""
        self._answer_began = -math.inf
        """The time at which that answer began."""
        self._was_answered = False
        """True if its last Fetch was answered here because its entity was over quota. The next one goes on where
        connections take turns: it comes after the connection that made the debt, which would be first each time."""
        self.muted_until = -math.inf
        """The time at which requests are read again: the later of the two below."""
        self._charged_until = -math.inf
        """The time at which the charges of this connection are paid."""
        self._waits_until = -math.inf
        """The time at which the request that stands in line is looked at again."""
        self._waits_for: Entity | None = None
        """The entity in whose line it stands."""
        self._waits_since: float | None = None
        """The time since when the next request waits, for a mute or in line; None: none does."""
        self.told_until = -math.inf
        """The end of the throttle time that the client was told last, which it may wait for although the quota has
        ended; over once it sends again."""
        self.muted_since = -math.inf
        self._muted_for: Entity | None = None
        self._counted_until = -math.inf

    @property
    def user(self) -> str | None:
        """The authenticated user, as the broker names it; None: it is not known."""
        return self._user

    def authenticated(self, user: str | None, *, by_sasl: bool = False) -> None:
        """Charge to another user from now on. `by_sasl`: the broker has accepted it, so it asks that of everybody."""
        self._user = user
        self._forget_entities()
        if by_sasl:
            self.is_authenticated = True
            self._throttle.learn_authentication()

    def is_bounded(self, client_id: str | None, traffic: ClientTraffic) -> bool:
        """Return True if a quota bounds this client. No name is remembered for the question."""
        self._is_of(client_id)
        bounded = self._bounded.get(traffic)
        if bounded is None:
            bounded = self.may_be_charged and self._throttle.bounds(self._user, self._client_id, traffic)
            self._bounded[traffic] = bounded
        return bounded

    def entity(self, client_id: str | None, traffic: ClientTraffic, now: float) -> Entity | None:
        """Return the entity that a request of this client is charged to; None: it has no quota, or is still to
        authenticate."""
        self._is_of(client_id)
        if traffic in self._entities:
            return self._entities[traffic]
        entity = self._throttle.entity(self._user, self._client_id, traffic, now) if self.may_be_charged else None
        if entity is None and self.may_be_charged and traffic is ClientTraffic.CONSUMER:
            entity = self._throttle.unbounded if self._throttle.uplink.is_set else None
        if entity is not None:
            entity = entity.part_of(self, self._throttle.burst_bytes(entity), now)
        self._entities[traffic] = entity
        return entity

    @property
    def muted_for(self) -> Entity | None:
        """The entity because of which it was muted last."""
        return self._muted_for

    def entities(self) -> list[Entity]:
        """Return the entities that it is of now, as far as it was charged."""
        return [each for each in self._entities.values() if each is not None]

    def charge(self, entity: Entity, size: int, now: float) -> None:
        """Charge an answer to its entity as it begins, and mute the connection for as long as that is over quota, or
        the listener over its rate."""
        self._throttle.charge(entity, size, now)
        self.last_response_bytes, self._answer_began = size, now
        self._mute(entity, self._uplink_seconds(now, unsent=size), now)
        self.pay(entity, now)

    def pay(self, entity: Entity, now: float) -> None:
        """Set the mute of the connection to as long as its entity is over quota, after bytes were charged."""
        self._mute(entity, entity.throttle_seconds(now) if self._throttle.enforce else 0.0, now)
        entity.first_looks_again(now)

    def count_answer(self, entity: Entity, size: int) -> None:
        """Count bytes of an answer that have gone on. Of the listener's rate they are charged once it is asked for."""
        self._throttle.passed_bytes[entity.label, entity.traffic] += size
        if self._throttle.uplink.is_set:
            self._throttle.uplink.count_client(self, size)

    def _uplink_seconds(self, now: float, *, unsent: int = 0) -> float:
        """Return for how long the listener's rate mutes it after its last answer, of which `unsent` bytes are to go."""
        uplink, size = self._throttle.uplink, self.last_response_bytes
        if not (self._throttle.enforce and uplink.is_set):
            return 0.0
        return uplink.throttle_seconds(now, size=size, since=self._answer_began, unsent=unsent)

    def release(self, entity: Entity, size: float, now: float) -> None:
        """Give back the charge of a request of which the broker took nothing."""
        entity.budget.release(size, now)
        self._charged_until = min(self._charged_until, now + entity.throttle_seconds(now))
        self._count_anew(entity, now)
        entity.first_looks_again(now)

    def hold(self, now: float) -> None:
        """Note that a request has come while the connection is muted: it waits already."""
        if self._waits_since is None:
            self._waits_since = now

    def goes_on(self) -> None:
        """Note that the next request waits no longer: it goes on, or is answered here."""
        self._waits_since = None

    def waited_seconds(self, now: float) -> float:
        """Return for how long the next request has waited."""
        return 0.0 if self._waits_since is None else now - self._waits_since

    def waits(self, entity: Entity, now: float) -> bool:
        """Return True if the connection's next request is to wait before it goes on, since its entity is in debt, or
        others of its connections came first. It waits for `max_throttle` at most, with the time for which it waited
        while the connection was muted."""
        if not self._throttle.enforce:
            self.leave_line(now)
            return False
        if entity.traffic is ClientTraffic.CONSUMER:
            self._mute(entity, self._uplink_seconds(now), now)  # what others were sent since its answer began
            if self._charged_until > now:
                return True
        if self._waits_for is not entity:
            self.leave_line(now)
            if not entity.line and entity.throttle_seconds(now) < MIN_THROTTLE_SECONDS:
                return False
            entity.line[self] = None
            self._waits_for = entity
            self.hold(now)
        self.look_again(now)
        if self._waits_until > now:
            return True
        self.leave_line(now)
        return False

    def look_again(self, now: float) -> None:
        """Work out until when the connection stands in line: the first until the debt is paid."""
        entity = self._waits_for
        if entity is None or self._waits_since is None:
            return
        until = min(self._waits_since + entity.budget.most_seconds, self.session_ends_at - SESSION_MARGIN_SECONDS)
        if entity.is_first(self):
            seconds = entity.throttle_seconds(now)
            until = min(until, now + seconds if seconds >= MIN_THROTTLE_SECONDS else now)
        self._waits_until = until
        self._count_anew(entity, now)

    def leave_line(self, now: float) -> None:
        """Stand in line no longer: the request goes on, or is decided anew, or never comes."""
        entity, self._waits_for, self._waits_until = self._waits_for, None, -math.inf
        if entity is not None:
            was_first = entity.is_first(self)
            entity.line.pop(self, None)
            self._count_anew(entity, now)
            if was_first:
                entity.first_looks_again(now)

    def largest_response_bytes(self, entity: Entity, now: float) -> int:
        """Return the most that a consumer is to be sent at once."""
        most = entity.budget.largest_response_bytes
        return int(min(most, self._throttle.uplink.largest_response_bytes(now)))

    def answer_session(
        self, entity: Entity, session_id: int, epoch: int, *, lists_nothing: bool, now: float
    ) -> int | None:
        """Return the session id with which a consumer's Fetch is to be answered here, without records, because its
        entity is over quota; None: it is to go on, or to wait in line.

        If it is answered, the connection is muted as if the answer were as large as the last.
        """
        throttled = self._throttle.enforce and entity.throttle_seconds(now) >= MIN_THROTTLE_SECONDS
        if self.has_turn(entity) or not throttled:
            self._was_answered = False
            return None
        answered = self.epochs.answers_here(session_id, epoch, lists_nothing=lists_nothing)
        if answered is not None:
            self._was_answered = True
            self.goes_on()
            seconds = entity.throttle_seconds(now, more=self.last_response_bytes)
            self._mute(entity, min(seconds, entity.budget.most_seconds), now)
        return answered

    def has_turn(self, entity: Entity) -> bool:
        """Return True if its Fetch goes on although its entity is over quota, as the last was answered here."""
        return self._was_answered and entity.budget.takes_turns

    def throttle_time_ms(self, now: float) -> int:
        """Return how long the connection is still muted, as an answer tells it."""
        if self._charged_until <= now:
            return 0
        self.told_until = self._charged_until
        return min(math.ceil((self._charged_until - now) * 1000), MAX_INT32)

    def mute(self, seconds: float, now: float, *, waited_seconds: float = 0.0) -> None:
        """Continue a mute of another process, in which the next request has waited for so long."""
        self._charged_until = now + seconds
        if waited_seconds:
            self._waits_since = now - waited_seconds
        self._count_anew(None, now)

    def quotas_changed(self, now: float) -> None:
        """Reduce the mute to that of the quotas now in force, and let the waiting request be decided anew."""
        if self.muted_until <= now:
            return
        waited_for = self._waits_for or self._muted_for
        self.leave_line(now)
        seconds = 0.0
        if self._throttle.enforce:
            entities = [self.entity(self._client_id, traffic, now) for traffic in tuple(self._entities)]
            seconds = max((each.throttle_seconds(now) for each in entities if each is not None), default=0.0)
            seconds = max(seconds, self._throttle.uplink.throttle_seconds(now))
        self._charged_until = min(self._charged_until, now + seconds)
        self._count_anew(waited_for, now)

    @property
    def held_until(self) -> float:
        """The time at which the client goes on, if it waits as it was told."""
        return max(self.muted_until, self.told_until)

    def close(self, now: float) -> None:
        """End the mute and the wait: the connection has ended."""
        self.leave_line(now)
        self.count_mute(now)
        self._throttle.muted.discard(self)

    def count_mute(self, now: float) -> None:
        """Count the throttle time that has passed."""
        until = min(now, self.muted_until)
        if until > self._counted_until and self._muted_for is not None:
            key = self._muted_for.label, self._muted_for.traffic
            self._throttle.throttle_seconds[key] += until - self._counted_until
        self._counted_until = now
        if self.held_until <= now:
            self._throttle.muted.discard(self)

    def _mute(self, entity: Entity, seconds: float, now: float) -> None:
        if seconds >= MIN_THROTTLE_SECONDS and now + seconds > self._charged_until:
            self._charged_until = now + seconds
            self._count_anew(entity, now)

    def _count_anew(self, entity: Entity | None, now: float) -> None:
        """Note a mute that has become longer or shorter; `entity`: because of which."""
        self.count_mute(now)
        before, until = self.muted_until, max(self._charged_until, self._waits_until)
        if before <= now < until:
            self.muted_since = now
        if until > now and entity is not None:
            self._muted_for = entity
        self.muted_until = until
        if until > now:
            self._throttle.muted.add(self)
        if now < before > until:
            self._woken()

    @property
    def may_be_charged(self) -> bool:
        """True unless the client is still to authenticate."""
        return self.is_authenticated or not self._throttle.listener_authenticates

    def _is_of(self, client_id: str | None) -> None:
        if client_id is not None and len(client_id) > MAX_NAME_CHARACTERS:
            client_id = client_id[:MAX_NAME_CHARACTERS]
        if client_id != self._client_id or self._generation != self._throttle.generation:
            self._client_id, self._generation = client_id, self._throttle.generation
            self._forget_entities()

    def _forget_entities(self) -> None:
        self._entities.clear()
        self._bounded.clear()
