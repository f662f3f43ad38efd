"""Reads one section of quotas.toml, key by key: of a broker, of the traffic with one other broker or with a rack, or
of a topic.

Knows a section's keys and how they may be written; which sections there are is `reading`. Reads no file and no clock.
Invariant: a key that is not understood, or is not this kind of section's, is refused.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from ..errors import InvalidValueError
from ..files.suggestions import did_you_mean
from .keys import SET_TWICE
from .rate_reading import parse_rate_or_source
from .rate_source import Deadline
from .replicas import ReplicaList, parse_replicas
from .sections import RATE_KEYS, REPLICAS_KEYS
from .times import YEARS
from .units import parse_rate, shown

if TYPE_CHECKING:
    from ..roles import Role
    from .rate_source import RateSource

UNTIL = "until"
_SECTION_KEYS = (*RATE_KEYS, *REPLICAS_KEYS, UNTIL)
_KEY_OF = {role: key for key, role in RATE_KEYS.items()}


class Of(enum.Enum):
    """The subject of a section: a broker, a peer, a rack or a topic."""

    BROKER = "brokers"
    PEER = "peers"
    RACK = "racks"
    TOPIC = "topics"

    @property
    def keys(self) -> tuple[str, ...]:
        """Those that it may have."""
        return (*RATE_KEYS, UNTIL) if self in (Of.PEER, Of.RACK) else _SECTION_KEYS


_NAMED = {Of.TOPIC: "topic", Of.RACK: "rack"}
"""Of what a name may have dots."""


@dataclass(slots=True)
class Draft:
    """A section while its keys are read."""

    of: Of
    since: datetime | None = None
    """When the override was made that the section is of: deadlines count from then; None: it is of the file."""
    rates: dict[Role, float] = field(default_factory=dict)
    sources: dict[Role, RateSource] = field(default_factory=dict)
    replicas: dict[Role, ReplicaList] = field(default_factory=dict)
    until: datetime | None = None
    keys: set[str] = field(default_factory=set)

    def set(self, key: str, value: object, *, path: str) -> None:
        """Set one key of the section. Raises InvalidValueError."""
        if key in self.keys:
            raise InvalidValueError(SET_TWICE)
        self.keys.add(key)
        if key not in self.of.keys:
            raise InvalidValueError(_unknown(path, key, value, self.of))
        if key in RATE_KEYS:
            self._set_rate(RATE_KEYS[key], value, path)
        elif key in REPLICAS_KEYS:
            self.replicas[REPLICAS_KEYS[key]] = _parse_list(value, of_broker=self.of is Of.BROKER)
        else:
            self.until = parse_until(value)

    def _set_rate(self, role: Role, value: object, path: str) -> None:
        if self.of is not Of.BROKER:
            if isinstance(value, dict):
                raise InvalidValueError(
                    "a rate that sets itself belongs to a broker, in [brokers.…]: expected a rate like "
                    f'"10MiB/s", found {shown(value)}'
                )
            self.rates[role] = parse_rate(value)
            return
        self.rates[role], source = parse_rate_or_source(value, path=f"{path}.{_KEY_OF[role]}")
        if source is None:
            return
        if self.since is not None and source.deadline is not None:
            source = replace(source, deadline=Deadline(at=source.deadline.moment(self.since)))
        self.sources[role] = source


def parse_until(value: object) -> datetime:
    """Parse `until`. Raises InvalidValueError."""
    if isinstance(value, datetime) and value.tzinfo is not None and value.year in YEARS:
        return value
    raise InvalidValueError(f"expected a date and time with an offset, like 2026-12-01T06:00:00Z, found {shown(value)}")


def _parse_list(value: object, *, of_broker: bool) -> ReplicaList:
    replicas = parse_replicas(value)
    if of_broker and replicas.entries:
        raise InvalidValueError(
            f'expected "*" or "" (partitions are listed per topic, in [topics.…]), found {shown(value)}'
        )
    return replicas


def _unknown(path: str, key: str, value: object, of: Of) -> str:
    if key in REPLICAS_KEYS:
        return "a list of replicas belongs to a topic or a broker: set it in [topics.…] or [brokers.…]"
    known = of.keys
    rest = next((key.removesuffix(f".{known}") for known in _SECTION_KEYS if key.endswith(f".{known}")), None)
    if isinstance(value, dict):
        rest = key
    if rest is None or of not in _NAMED:
        return f"unknown key; expected one of {', '.join(known)}{did_you_mean(key, known)}"
    name = path.split(f"{of.value}.", 1)[1].strip('"')
    return f'a {_NAMED[of]} name with dots needs quotes: [{of.value}."{name}.{rest}"]'
