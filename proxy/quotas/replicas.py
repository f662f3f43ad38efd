"""Kafka's throttled-replica lists: ``"0:101,1:101"``, ``"*"`` and ``""``.

An entry is ``partition:broker``, and broker is always the one that does the throttling: ``p:b`` in a leader
list means "b, when it serves p, throttles every follower that is out of sync", in a follower list "b
throttles its own fetching of p". Knows no topic, no role and no file.

Follows ThrottledReplicaListValidator (trunk) in what it accepts, and goes one step further in what it
survives: Kafka's validator trims elements and allows empty ones, but its parser does not, so ``0:1, 1:1`` and
``0:1,,1:1`` validate and then fail with NumberFormatException or ArrayIndexOutOfBounds and the list is never
applied. Here both mean ``0:1,1:1``. Whitespace around the colon stays invalid, as there. Invariant: a value
that Kafka's validator refuses is refused here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import InvalidValueError
from .units import shown

_ENTRY = re.compile(r"([0-9]{1,20}):([0-9]{1,20})", re.ASCII)
_MAX_INT32 = 2**31 - 1
_EXPECTED = 'expected "partition:broker,…", "*" or ""'


@dataclass(frozen=True, slots=True)
class Partitions:
    """A set of partition ids of a topic, or every one there is."""

    ids: frozenset[int] = frozenset()
    every: bool = False

    def __contains__(self, partition: int) -> bool:
        return self.every or partition in self.ids

    def __bool__(self) -> bool:
        return self.every or bool(self.ids)

    def __str__(self) -> str:
        return "*" if self.every else ",".join(str(partition) for partition in sorted(self.ids))


EVERY_PARTITION = Partitions(every=True)
NO_PARTITION = Partitions()


@dataclass(frozen=True, slots=True)
class ReplicaList:
    """A list as written: entries of ``(partition, broker)``, or every replica."""

    entries: tuple[tuple[int, int], ...] = ()
    every: bool = False

    def partitions_on(self, broker_id: int) -> Partitions:
        """Return the partitions of this list on one broker (TopicConfigHandler keeps the entries that name its own
        id)."""
        if self.every:
            return EVERY_PARTITION
        return Partitions(frozenset(partition for partition, broker in self.entries if broker == broker_id))


def parse_replicas(value: object) -> ReplicaList:
    """Parse a list. Raises InvalidValueError where Kafka's validator refuses, and for ids beyond an int32."""
    if not isinstance(value, str):
        raise InvalidValueError(f"{_EXPECTED}, found {shown(value)}")
    elements = [element for element in (part.strip() for part in value.split(",")) if element]
    if elements == ["*"]:
        return ReplicaList(every=True)
    return ReplicaList(tuple(_parse_entry(element, value=value) for element in elements))


def _parse_entry(element: str, *, value: str) -> tuple[int, int]:
    match = _ENTRY.fullmatch(element)
    if match is None:
        offending = "" if element == value else f' (at "{element}")'
        raise InvalidValueError(f"{_EXPECTED}, found {shown(value)}{offending}")
    partition, broker = int(match[1]), int(match[2])
    if max(partition, broker) > _MAX_INT32:
        raise InvalidValueError(f'{_EXPECTED}, found {shown(value)} ("{element}" does not fit 32 bits)')
    return partition, broker
