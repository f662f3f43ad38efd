"""An entity of client quotas for one kind of traffic: its budget, and the line of connections that wait for it.

    in debt ──▶ the next Produce, Fetch or ShareFetch of each of its connections stands in line, before it goes on
    paid ─────▶ the first of the line goes on, is charged, and the next waits until that is paid

So the debt of an entity is bounded by its bytes under way, over however many connections. Pure: time is an argument.
Invariant: a connection stands in one line at most, and no longer than `max_throttle`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from admission.simple_rate import SimpleRate
from protocol.wire.framing import LENGTH_PREFIX_BYTES

from ..quotas.client_entity import ClientEntity
from ..quotas.names import DEFAULT
from .budgets import SharedBudget

if TYPE_CHECKING:
    from ..quotas.keys import ClientTraffic
    from ..topology.racks import Relayed
    from .budgets import ClientBudget, Shared
    from .consumers import CatchUp

OTHER = "other"
MAX_NAME_CHARACTERS = 249
"""The characters that count in a user or client id: longer ones share a quota where they begin alike. A client id may
have 32 KiB, and 128 as text, of which each connection remembers the last."""
MAX_NAME_BYTES = 4 * MAX_NAME_CHARACTERS
"""The most bytes of a name in UTF-8."""
MAX_AT_ONCE = 64
"""The most Produces on their way that are charged whenever somebody asks."""
CHARGE_SECONDS = 20e-6
"""The pause between two charges of more, for each of them. One takes 0.5 us: 5000 connections that send half a Produce
each would otherwise cost 2.7 ms of the loop for each request of their entity."""

EntityKey: TypeAlias = "tuple[ClientTraffic, ClientEntity, bool]"
"""The third: whether it is the entity that those without a place of their own share, which no client's name reaches."""


class InLine(Protocol):
    """A connection that stands in line."""

    def look_again(self, now: float) -> None:
        """Work out anew when it goes on."""


class Counts(Protocol):
    """Counts bytes of an entity that passed, and returns how many of them count."""

    def __call__(self, entity: Entity, size: int, now: float, *, before: int = 0) -> float: ...


class Sending:
    """A Produce on its way to the broker, which is charged as far as it has gone on: its length is only what a client
    claims."""

    __slots__ = ("_begins_at", "_count", "_relayed", "_total", "charged", "entity", "passed")

    def __init__(self, entity: Entity, relayed: Relayed, total: int, count: Counts) -> None:
        self.entity = entity
        self.passed = 0
        self.charged = 0.0
        """Bytes that count against the quota."""
        self._relayed = relayed
        self._begins_at = relayed.request_bytes + LENGTH_PREFIX_BYTES
        self._total = total - LENGTH_PREFIX_BYTES
        self._count = count
        entity.sending.add(self)

    def charge(self, now: float) -> None:
        """Charge the bytes that have gone on since the last time."""
        size = min(self._relayed.request_bytes - self._begins_at, self._total) - self.passed
        if size > 0:
            self.charged += self._count(self.entity, size, now, before=self.passed)
            self.passed += size

    def end(self, now: float) -> None:
        """Note that nothing more of it goes on."""
        self.charge(now)
        self.entity.sending.discard(self)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Entity:
    """A user, a client id or both, or a glob of them, with a quota for one kind of traffic."""

    entity: ClientEntity
    traffic: ClientTraffic
    budget: ClientBudget
    label: str
    """The name in metrics: its own, or ``other``."""
    rate: SimpleRate = field(default_factory=SimpleRate)
    """The rate at which bytes passed, over KIP-73's window."""
    is_named: bool = False
    """A section of quotas.toml names it; otherwise it has a default."""
    catch_up: CatchUp | None = None
    """The throttle of consumers of which only reads behind the tail count; None: all bytes count, by `budget`."""
    free_rate: SimpleRate = field(default_factory=SimpleRate)
    """The rate of bytes read at the tail, which do not count."""
    shared: Shared | None = None
    """The account of those that share the budget, since they have no place of their own; None: it is this entity's."""
    line: dict[InLine, None] = field(default_factory=dict)
    """The connections whose next request waits until the debt is paid, in the order in which they came."""
    sending: set[Sending] = field(default_factory=set)
    is_other: bool = False
    """True for the entity that those without a place of their own share, and for each connection's part of it."""
    _charged_at: float = -math.inf
    _parts: WeakKeyDictionary[object, Entity] | None = None
    """The entity that stands for each connection's part, while it is open."""

    @property
    def name(self) -> str:
        return shown_name(self.entity, is_other=self.is_other)

    @property
    def key(self) -> EntityKey:
        return self.traffic, self.entity, self.is_other

    def part_of(self, connection: object, burst_bytes: float, now: float) -> Entity:
        """Return the part of a connection, which is its own if the budget is shared."""
        if self.shared is None:
            return self
        if self._parts is None:
            self._parts = WeakKeyDictionary()
        part = self._parts.get(connection)
        if part is None:
            budget = SharedBudget(self.budget, self.shared, burst_bytes, now)
            part = replace(self, budget=budget, shared=None, line={}, sending=set(), _parts=None)
            self._parts[connection] = part
        return part

    def throttle_seconds(self, now: float, *, more: int = 0) -> float:
        """Return for how long the entity is to be throttled, as its budget has it; bytes that have gone on count."""
        count = len(self.sending)
        if count and (count <= MAX_AT_ONCE or now - self._charged_at >= count * CHARGE_SECONDS):
            self._charged_at = now
            for each in self.sending:
                each.charge(now)
        return self.budget.throttle_seconds(now, more=more)

    def debt_seconds(self, now: float) -> float:
        """Return for how long the entity is to get nothing that counts; 0: it is not over its quota."""
        seconds = self.throttle_seconds(now)
        return seconds if self.catch_up is None else max(seconds, self.catch_up.debt_seconds(now))

    def begin_with_debt(self, seconds: float, now: float) -> None:
        """Begin over quota, as `debt_seconds` has it."""
        if self.catch_up is None:
            self.budget.begin_with_debt(seconds, now)
        else:
            self.catch_up.begin_with_debt(seconds, now)

    def is_first(self, connection: InLine) -> bool:
        return next(iter(self.line), None) is connection

    def first_looks_again(self, now: float) -> None:
        """Call the first of the line, as the debt has changed, or another was first."""
        if (first := next(iter(self.line), None)) is not None:
            first.look_again(now)


def shown_name(entity: ClientEntity, *, is_other: bool) -> str:
    """Return the name that people and metrics read; of those that share a budget, ``other`` stands for each name."""
    return (ClientEntity(*(OTHER if name == DEFAULT else name for name in entity)) if is_other else entity).label


class EntityState(NamedTuple):
    """The use that an entity has made of its quota, for people and metrics."""

    name: str
    traffic: ClientTraffic
    quota_bytes_per_second: float
    rate_bytes_per_second: float
    catch_up_only: bool
    free_bytes_per_second: float
    connections: int = 0
    """The number of connections that belong to it now."""
    muted: int = 0
    """The number of these that are muted, or wait."""
    muted_since: float | None = None
    """The time, by Trio's clock, since when one of them has been; None: none is."""
    muted_seconds: float = 0.0
    """The time until the last of them is free, at most."""
    is_other: bool = False
    """True for those without a place of their own, which share a budget."""


class ClientDebt(NamedTuple):
    """An entity that is over its quota; `seconds`: for how long it is to be throttled."""

    traffic: str
    user: str | None
    client: str | None
    seconds: float
