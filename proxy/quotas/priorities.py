"""``[priorities]``: which of the replicas that are behind go before the others.

    [priorities]
    order = ["topic:payments", "under-min-isr", "under-replicated", "moves"]
    min.insync.replicas = 2
    default.replication.factor = 3

A replica belongs to the first entry of `order` that fits it. Knows the state of a partition, not its source. Reads no
file. Invariant: an order names each entry once.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InvalidValueError
from ..files.toml_reading import did_you_mean
from .names import SET_TWICE, TOPIC_OR_GLOB, flattened, glob_of
from .units import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.metadata import ReplicaCount

MAX_ENTRIES = 16
MAX_REPLICAS = 100
TOPIC_PREFIX = "topic:"
MIN_INSYNC_REPLICAS = "min.insync.replicas"
REPLICATION_FACTOR = "default.replication.factor"
_ORDER = "order"
KEYS = (_ORDER, MIN_INSYNC_REPLICAS, REPLICATION_FACTOR)


class Need(enum.StrEnum):
    """The health of the partition of a replica that is behind."""

    UNDER_MIN_ISR = "under-min-isr"
    """The partition has fewer replicas in sync than min.insync.replicas: producers with acks=all are refused."""
    UNDER_REPLICATED = "under-replicated"
    """The partition has fewer replicas in sync than it should have."""
    MOVES = "moves"
    """No replica is missing: this one is added by a reassignment. A partition also counts as this while no broker has
    told how many of its replicas are in sync."""


class Priorities(NamedTuple):
    """`order`: needs, and topics or globs, the first of them first. Replicas that no entry fits come after the last."""

    order: tuple[Need | str, ...] = tuple(Need)
    min_insync_replicas: int = 2
    """The least min.insync.replicas assumed: with 2, a partition that has several replicas and only one of them in sync
    is in need, whatever its topic's setting."""
    replication_factor: int | None = None
    """The number of replicas a partition should have. None: as many as that partition of the same topic that has
    fewest, since a broker that does not list reassignments also counts the replicas that they add."""

    @property
    def asks_who_is_in_sync(self) -> bool:
        """True if it makes a difference how many replicas of a partition are in sync."""
        needs = [each for each in self.order if isinstance(each, Need)]
        return bool(needs) and needs != [Need.MOVES] and bool(self.most_urgency)

    @property
    def most_urgency(self) -> int:
        """The urgency of the first entry; 0: no replica goes before another."""
        return max(len(self.order) - self._everything_fits, 0)

    @property
    def _everything_fits(self) -> bool:
        return set(Need) <= set(self.order)

    def entries(self) -> list[str]:
        """`order` as the file has it."""
        return [each.value if isinstance(each, Need) else f"{TOPIC_PREFIX}{each}" for each in self.order]

    def urgency_of_topic(self, topic: str) -> int:
        """Return the urgency that a topic has by its name alone; 0: no entry names it, or it is among the last."""
        found = (place for place, each in enumerate(self.order) if not isinstance(each, Need) and _fits(each, topic))
        return self._urgency(next(found, None))

    def urgency_of_need(self, need: Need) -> int:
        return self._urgency(self.order.index(need) if need in self.order else None)

    def _urgency(self, place: int | None) -> int:
        return 0 if place is None else self.most_urgency - place

    def need_of(self, partition: ReplicaCount, fewest_replicas: int) -> Need:
        """Return the need of a partition. `fewest_replicas`: the least number of replicas that any partition of
        its topic has."""
        wanted = fewest_replicas if self.replication_factor is None else self.replication_factor
        wanted = min(wanted, partition.replicas)
        if partition.in_sync < min(self.min_insync_replicas, wanted):
            return Need.UNDER_MIN_ISR
        return Need.UNDER_REPLICATED if partition.in_sync < wanted else Need.MOVES


def _fits(name: str, topic: str) -> bool:
    return name == topic or glob_of(name).matches(topic)


def parse_priorities(table: object, refuse: Callable[[str, str], None]) -> Priorities:
    """Parse ``[priorities]``; `refuse` is called for each problem, with its key path and text."""
    if not isinstance(table, dict):
        refuse("priorities", f"expected a table, found {shown(table)}")
        return Priorities()
    values: dict[str, Any] = {}
    seen: set[str] = set()
    for key, value in flattened(table):
        if key in seen:
            refuse(f"priorities.{key}", SET_TWICE)
        seen.add(key)
        try:
            if key == _ORDER:
                values["order"] = _order(value)
            elif key == MIN_INSYNC_REPLICAS:
                values["min_insync_replicas"] = _count(value)
            elif key == REPLICATION_FACTOR:
                values["replication_factor"] = _count(value)
            else:
                refuse(f"priorities.{key}", f"unknown key; expected {', '.join(KEYS)}{did_you_mean(key, KEYS)}")
        except InvalidValueError as error:
            refuse(f"priorities.{key}", str(error))
    return Priorities(**values)


def _order(value: object) -> tuple[Need | str, ...]:
    expected = f'a list of {", ".join(Need)} and "{TOPIC_PREFIX}NAME", the first first'
    if not isinstance(value, list) or len(value) > MAX_ENTRIES:
        raise InvalidValueError(f"expected {expected}, {MAX_ENTRIES} at most, found {shown(value)}")
    found = tuple(_entry(item, expected) for item in value)
    twice = next((each for place, each in enumerate(found) if each in found[:place]), None)
    if twice is not None:
        raise InvalidValueError(f"expected each once, found {shown(str(twice))} twice")
    return found


def _entry(item: object, expected: str) -> Need | str:
    if isinstance(item, str) and item in set(Need):
        return Need(item)
    if isinstance(item, str) and item.startswith(TOPIC_PREFIX):
        name = item.removeprefix(TOPIC_PREFIX)
        if TOPIC_OR_GLOB.fullmatch(name):
            return name
    advice = did_you_mean(item, tuple(Need)) if isinstance(item, str) else ""
    raise InvalidValueError(f"expected {expected}, found {shown(item)}{advice}")


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_REPLICAS:
        raise InvalidValueError(f"expected a number of replicas from 1 to {MAX_REPLICAS}, found {shown(value)}")
    return value


DEFAULT_PRIORITIES = Priorities()
