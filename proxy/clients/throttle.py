"""The client quotas in force, and the budget and counters of each entity that has shown itself.

Pure: time is an argument. Knows no frames. Invariants: all connections of an entity share one budget; however many
client ids peers make up, a bounded number of entities is remembered and counted by name.
"""

from __future__ import annotations

import enum
import math
from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ..quotas.client_entity import ClientEntity
from ..quotas.keys import CLIENT_RATES, MAX_THROTTLE, ClientTraffic
from ..throttle.replicas import ReplicaCountLimit
from .budgets import Shared, Unbounded, client_budget
from .consumers import CatchUp
from .entity import MAX_NAME_CHARACTERS, OTHER, ClientDebt, Entity, EntityKey, EntityState, shown_name
from .uplink import UplinkBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from ..config.settings import QuotaSettings
    from ..quotas.client_rates import ClientQuota
    from ..quotas.rules import Quotas
    from ..statistics.counters import RoleStatistics

MAX_ENTITIES = 2000
"""The most entities under sections of ``default`` that have a budget of their own; beyond that, those of each section
share one."""
MAX_COUNTED = 50
"""The most entities under sections of ``default`` that metrics name; the others are counted as `OTHER`."""
_SWEEP_SECONDS = 1.0
"""Seconds between two searches for entities to forget, where there are too many."""


class Client(Protocol):
    """A connection as the throttle sees it (`connection.ClientConnection`)."""

    muted_since: float

    @property
    def muted_for(self) -> Entity | None: ...

    @property
    def held_until(self) -> float: ...

    def entities(self) -> list[Entity]: ...

    def count_mute(self, now: float) -> None: ...


class Attached(Protocol):
    """A relayed connection of the listener."""

    @property
    def client(self) -> Client: ...

    def quotas_changed(self, now: float) -> None: ...


class Uncharged(enum.Enum):
    """The reason why bytes that passed were not charged after all; the value is the metric's label."""

    REFUSED = "refused"
    """The broker has appended nothing of the Produce."""
    CLOSED = "closed"
    """The broker closed the connection instead of an answer."""
    MAX_THROTTLE = "max_throttle"
    """The entity owed as much as it may."""


class ClientThrottle:
    """There is a single one per process: clients dial the ingress alone."""

    def __init__(self, settings: QuotaSettings, quotas: Quotas, now: float, statistics: RoleStatistics) -> None:
        """Begin with `quotas`. `statistics`: the ingress's."""
        self._settings = settings
        self.listener_authenticates = False
        """True once the broker has accepted a client's authentication by SASL: it takes nothing of clients before."""
        self.broker_addresses: frozenset[str] = frozenset()
        """The addresses of the brokers that the cluster names."""
        self.uplink = UplinkBudget(settings, statistics, math.inf, now)
        """The bound of all clients and replication together, while the listener has a rate."""
        self.unbounded = Entity(ClientEntity(None, OTHER), ClientTraffic.CONSUMER, Unbounded(), OTHER)
        """The entity of all consumers without a quota, which are charged to the listener's rate."""
        self._entities: dict[EntityKey, Entity] = {}
        self._by_default: Counter[ClientTraffic] = Counter()
        """The number of entities that have a default quota."""
        self._swept_at = now - _SWEEP_SECONDS
        self._counted: set[str] = set()
        """The entities under defaults that metrics name: the first ones, since a counter must not fall."""
        self._connections: set[Attached] = set()
        self.muted: set[Client] = set()
        """The connections that are muted, or were when they were looked at last."""
        self.generation = 0
        """Changes whenever an entity that a connection remembers may have another budget, or none."""
        self.passed_bytes: Counter[tuple[str, ClientTraffic]] = Counter()
        self.free_bytes: Counter[str] = Counter()
        """Bytes by label that consumers read at the tail, and that did not count."""
        self.remembered = ReplicaCountLimit()
        """The limit of the partitions that are remembered for `catch_up_only`."""
        self.throttle_seconds: dict[tuple[str, ClientTraffic], float] = defaultdict(float)
        """The throttle time of connections that has passed, by label, as `count_mutes` has counted it last."""
        self.uncharged_bytes: Counter[Uncharged] = Counter()
        """Bytes that passed and were not charged after all."""
        self._put_in_force(quotas, now)

    def _put_in_force(self, quotas: Quotas, now: float) -> None:
        self._quotas, self._rates, self.enforce = quotas, quotas.clients, quotas.enforce
        self.uplink.mutes = quotas.enforce
        self.uplink.change_rate(quotas.listener_bytes_per_second, now)

    @property
    def is_needed(self) -> bool:
        """True if some client has a quota, or all of them together have a rate."""
        return self.uplink.is_set or bool(self._rates)

    def attach(self, connection: Attached, now: float) -> None:
        """Let a connection know the quotas in force now, and every change until `detach`."""
        self._connections.add(connection)
        connection.quotas_changed(now)

    def detach(self, connection: Attached) -> None:
        self._connections.discard(connection)

    def apply(self, quotas: Quotas, now: float) -> None:
        """Put a new snapshot of the quotas in force."""
        in_force = (self._rates, self.enforce, self.uplink.bytes_per_second)
        if (quotas.clients, quotas.enforce, quotas.listener_bytes_per_second) == in_force:
            return
        self._put_in_force(quotas, now)
        self.generation += 1
        for key, entity in tuple(self._entities.items()):
            quota = self._quota_of(entity)
            if quota is None:
                self._forget(key, now)
            else:
                self._follow(entity, quota, now)
        for connection in tuple(self._connections):
            connection.quotas_changed(now)

    def learn_authentication(self, *, is_asked: bool = True) -> None:
        """Charge nobody from now on before it has authenticated; or everybody, as the broker has answered one that had
        not: its listener is another since it was restarted."""
        if self.listener_authenticates is not is_asked:
            self.listener_authenticates = is_asked
            self.generation += 1

    def bounds(self, user: str | None, client_id: str | None, traffic: ClientTraffic) -> bool:
        """Return True if a quota, or the listener's rate, bounds a client."""
        is_metered = traffic is ClientTraffic.CONSUMER and self.uplink.is_set
        return is_metered or self._rates.of(traffic).of(user, client_id or "") is not None

    def entity(self, user: str | None, client_id: str | None, traffic: ClientTraffic, now: float) -> Entity | None:
        """Return the entity whose quota bounds a client; None: none does. `user`: None if it is not known. Without a
        client id it is empty."""
        quota = self._rates.of(traffic).of(user, client_id or "")
        return None if quota is None else self._entity(traffic, quota, now)

    def _entity(self, traffic: ClientTraffic, quota: ClientQuota, now: float) -> Entity:
        whose, is_named, is_other = quota.entity, quota.section.is_named, False
        if not is_named:
            whose = ClientEntity(*(name and name[:MAX_NAME_CHARACTERS] for name in whose))
            if (traffic, whose, False) not in self._entities and not self._has_room(traffic, now):
                is_other, whose = True, quota.section
        label = shown_name(whose, is_other=is_other)
        entity = self._entities.get((traffic, whose, is_other))
        if entity is None:
            budget = client_budget(self._settings, quota.bytes_per_second, now, _max_throttle_seconds(quota))
            entity = Entity(
                whose, traffic, budget, label if is_named else self._label(label), is_named=is_named, is_other=is_other
            )
            entity.shared = Shared(budget, now) if is_other else None
            self._entities[entity.key] = entity
            self._by_default[traffic] += not is_named
        self._follow(entity, quota, now)
        if entity.is_named != is_named:  # a section of its own has come or gone
            self._by_default[traffic] += 1 if entity.is_named else -1
            entity.is_named, entity.label = is_named, label if is_named else self._label(label)
        return entity

    def _follow(self, entity: Entity, quota: ClientQuota, now: float) -> None:
        """Let an entity have the rate of its quota, and count catching up alone if the quota says so."""
        rate, catch_up, most_seconds = quota.bytes_per_second, entity.catch_up, _max_throttle_seconds(quota)
        if (entity.budget.bytes_per_second, entity.budget.most_seconds) != (rate, most_seconds):
            entity.budget.most_seconds = most_seconds
            entity.budget.change_rate(rate, now)
        if catch_up is not None and quota.catch_up_only:
            catch_up.change(rate, self._quotas, now)
        elif catch_up is not None:
            catch_up.lift(now)
            entity.catch_up = None
        elif quota.catch_up_only:
            entity.catch_up = self._catch_up(rate, partial(self._count_consumer, entity), now)

    def _quota_of(self, entity: Entity) -> ClientQuota | None:
        """Return the quota in force of an entity; None if it has none any more."""
        rates = self._rates.of(entity.traffic)
        if entity.is_named or entity.is_other:
            return rates.by_section(entity.entity, entity.entity)
        user, client = entity.entity
        quota = rates.of(user, client or "")
        return quota if quota is not None and quota.entity == entity.entity else None

    def _count_consumer(self, entity: Entity, free: int, charged: int, now: float) -> None:
        """Count bytes of a consumer of which only reads behind the tail count."""
        self.passed_bytes[entity.label, entity.traffic] += free + charged
        self.free_bytes[entity.label] += free
        if charged:
            entity.rate.record(charged, now)
        if free:
            entity.free_rate.record(free, now)

    def _catch_up(self, rate: float, counted: Callable[[int, int, float], None], now: float) -> CatchUp:
        return CatchUp(
            self._settings, rate, self._quotas, now, counted=counted, remembered=self.remembered, above=self.uplink
        )

    def lifted(self, now: float) -> CatchUp:
        """Return a throttle that bounds nothing, and refuses the fetch sessions that another process has begun."""
        throttle = self._catch_up(math.inf, _count_nothing, now)
        throttle.lift(now)
        return throttle

    def recount(self) -> None:
        """Count anew how many partitions are remembered for `catch_up_only`."""
        throttles = [each.catch_up for each in self._entities.values() if each.catch_up is not None]
        self.remembered.count = sum(len(link.replicas) for each in throttles for link in each.throttle.links)

    def count(self, entity: Entity, size: int, now: float, *, before: int = 0) -> float:
        """Count bytes that passed, and charge them. Return how many of them count."""
        self.passed_bytes[entity.label, entity.traffic] += size
        return self.charge(entity, size, now, before=before)

    def charge(self, entity: Entity, size: int, now: float, *, before: int = 0) -> float:
        """Take bytes from the budget if quotas are enforced. Return how many of them count. `before`: the bytes of the
        same request that were charged before."""
        entity.rate.record(size, now)
        if not self.enforce:
            return 0.0
        charged = entity.budget.charge(size, now, before=before)
        if charged < size:
            self.uncharged_bytes[Uncharged.MAX_THROTTLE] += round(size - charged)
        return charged

    def burst_bytes(self, entity: Entity) -> float:
        """Return the bytes that an entity may use at once under policy `strict`."""
        return entity.budget.bytes_per_second * self._settings.burst_seconds

    def count_mutes(self, now: float) -> None:
        """Count the throttle time that has passed up to now."""
        for each in tuple(self.muted):
            each.count_mute(now)

    def debts(self, now: float) -> list[ClientDebt]:
        """Return the entities that are over quota, for another process to go on from; what is owed to a shared budget
        is nobody's."""
        debts = (
            ClientDebt(each.traffic.value, *each.entity, each.debt_seconds(now))
            for each in self._entities.values()
            if not each.is_other
        )
        return [debt for debt in debts if debt.seconds > 0]

    def take_debts(self, debts: Iterable[ClientDebt], now: float) -> None:
        """Take over the `debts` of another process, before any client has shown itself here."""
        for debt in debts:
            traffic, whose = ClientTraffic(debt.traffic), ClientEntity(debt.user, debt.client)
            rates = self._rates.of(traffic)
            quota = rates.by_section(whose, whose) or rates.of(whose.user, whose.client or "")
            if quota is not None and quota.entity == whose:
                self._entity(traffic, quota, now).begin_with_debt(debt.seconds, now)

    def sections(self) -> Iterator[tuple[ClientTraffic, str, float]]:
        """Yield the rates of quotas.toml and overrides: traffic, label of the section, bytes per second."""
        for traffic, key in CLIENT_RATES.items():
            for name, rate in self._rates.by_label(key).items():
                yield traffic, name, rate

    def limits(self) -> dict[tuple[str, ClientTraffic], float]:
        """Return the limits by the names that metrics have, in bytes per second; of several the least."""
        found: dict[tuple[str, ClientTraffic], float] = {}
        for each in self._entities.values():
            key = each.label, each.traffic
            found[key] = min(each.budget.bytes_per_second, found.get(key, math.inf))
        return found

    def states(self, now: float) -> list[EntityState]:
        """Return the entities that have shown themselves, the busiest first."""
        connections: Counter[EntityKey] = Counter()
        for attached in self._connections:
            connections.update(each.key for each in attached.client.entities())
        held: defaultdict[EntityKey, list[Client]] = defaultdict(list)
        for client in self.muted:
            if client.muted_for is not None and client.held_until > now:
                held[client.muted_for.key].append(client)
        found = [self._state(each, connections[key], held.pop(key, []), now) for key, each in self._entities.items()]
        for clients in held.values():  # of quotas that have ended
            ended = clients[0].muted_for
            if ended is not None:
                found.append(self._state(ended, len(clients), clients, now)._replace(quota_bytes_per_second=math.inf))
        return sorted(found, key=lambda state: (-state.rate_bytes_per_second, state.name, state.traffic.value))

    def _state(self, entity: Entity, connections: int, held: Collection[Client], now: float) -> EntityState:
        return EntityState(
            entity.name,
            entity.traffic,
            entity.budget.bytes_per_second,
            entity.rate.measure(now),
            entity.catch_up is not None,
            entity.free_rate.measure(now),
            connections,
            len(held),
            min((each.muted_since for each in held), default=None),
            max((each.held_until for each in held), default=now) - now,
            entity.is_other,
        )

    def _label(self, name: str) -> str:
        if name not in self._counted and len(self._counted) < MAX_COUNTED:
            self._counted.add(name)
        return name if name in self._counted else OTHER

    def _has_room(self, traffic: ClientTraffic, now: float) -> bool:
        """Return whether another entity may have a budget of its own; forget those that have moved nothing lately and
        are within their quotas to make room, which gives each of them a burst at most."""
        if self._by_default[traffic] >= MAX_ENTITIES and now - self._swept_at >= _SWEEP_SECONDS:
            self._swept_at = now
            for key, entity in tuple(self._entities.items()):
                is_used = entity.rate.measure(now) or (entity.catch_up is not None and entity.catch_up.throttle.links)
                if not (entity.is_named or is_used or entity.line or entity.debt_seconds(now)):
                    self._forget(key, now)
            self.generation += 1
        return self._by_default[traffic] < MAX_ENTITIES

    def _forget(self, key: EntityKey, now: float) -> None:
        entity = self._entities.pop(key)
        if entity.catch_up is not None:
            entity.catch_up.lift(now)
        self._by_default[entity.traffic] -= not entity.is_named


def _max_throttle_seconds(quota: ClientQuota) -> float:
    return quota.get(MAX_THROTTLE).total_seconds()


def _count_nothing(free: int, charged: int, now: float) -> None:
    """Count nothing: no entity has these bytes."""
    del free, charged, now
