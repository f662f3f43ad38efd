"""Declares each key of a section of quotas.toml, once: its name, the sections that may have it, its values and default.

Reading, overrides, ``set`` and its completion, ``check``, ``status``, the table in docs/quotas.md and what the chart
refuses follow from `ALL`. `rules` and `client_rates` have the meaning of values together. ``[priorities]``,
which no override changes, is read by `priorities`. Pure. Invariant: no two keys of one kind of section have one name.
"""

from __future__ import annotations

import enum
import math
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ..errors import InvalidValueError
from ..files.toml_reading import load_toml
from ..roles import Role
from .rate_source import MIN_RATE, Deadline, RateSource, parse_rate_or_source
from .replicas import Partitions, ReplicaList, parse_replicas
from .units import YEARS, format_rate, format_span, parse_rate, parse_span, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")
_LONGEST_WAIT = timedelta(hours=1)
_MIN_CLIENT_RATE = 1024.0
"""Bytes per second. With less a client waits for seconds after a batch of some records."""
_FORGOTTEN_UNIT = "Was a unit forgotten? (50MiB/s; an integer is bytes per second)"
_DESCRIBED = re.compile(r"[0-9]{1,20}\.0|[0-9]\.[0-9]{1,17}E[0-9]{1,2}", re.ASCII)
"""The bytes per second of a client as kafka-configs --describe prints them, a Java double: 1024.0, 1.048576E7."""


class SectionKind(enum.Enum):
    """A kind of section; the value is the table's name, and the first part of a place."""

    BROKER = "brokers"
    PEER = "peers"
    RACK = "racks"
    TOPIC = "topics"
    CLIENT = "clients"
    USER = "users"
    LISTENER = "listener"
    MODE = "mode"

    @property
    def has_names(self) -> bool:
        """True for a kind with a section for each of many names, False for one of the whole sidecar."""
        return self not in _OF_WHOLE_SIDECAR


_OF_WHOLE_SIDECAR = (SectionKind.LISTENER, SectionKind.MODE)
_OF_CLIENTS = (SectionKind.CLIENT, SectionKind.USER)
_OF_LISTS = (SectionKind.BROKER, SectionKind.TOPIC)


class ClientTraffic(enum.Enum):
    """The direction that a client quota bounds: bytes of Produce requests, or of Fetch responses.

    The value is the metrics' label.
    """

    PRODUCER = "producer"
    CONSUMER = "consumer"

    @property
    def key(self) -> str:
        return f"{self.value}_byte_rate"


class Rate(NamedTuple):
    """The value of a role's rate."""

    bytes_per_second: float
    """The rate; of one that sets itself, the most that it may be; `math.inf` if unlimited."""
    source: RateSource | None = None
    """The source of a rate that sets itself; None: the rate is fixed."""

    def __str__(self) -> str:
        return format_rate(self.bytes_per_second) if self.source is None else str(self.source)


class Position(NamedTuple):
    """The place at which a value is read."""

    kind: SectionKind
    path: str = ""
    """The key's path in the file."""
    since: datetime | None = None
    """The time at which the override was made that the section is of: deadlines count from then; None: it is of the
    file."""


@dataclass(frozen=True, eq=False, kw_only=True)
class QuotaKey(Generic[T]):
    """A key, and all that is known of its values."""

    name: str
    kinds: tuple[SectionKind, ...]
    """The kinds of section that may have it."""
    values: str
    """The values, with their unit, for documents, help and errors."""
    meaning: str
    """A sentence for documents, help and completion."""
    parse: Callable[[object, Position], T]
    """Returns the value that a file or an override gives. Raises InvalidValueError."""
    default: T
    """The value where no section has the key."""
    in_words: Callable[[T, int], str]
    """Returns a value as people read it, with its unit, at the broker with that id."""
    from_text: Callable[[str], Any] = str
    """Returns the override's value for the text that an operator types. Raises InvalidValueError."""
    doubt: Callable[[T], str | None] = lambda _: None
    """Returns a warning about a value that is valid and hardly meant."""
    beside: QuotaKey[Any] | None = None
    """The key that the same section must have, and that this one is about."""
    is_required: bool = False
    """True if its sections are nothing without it."""

    @property
    def typed(self) -> str:
        """The name as ``set`` takes it: with its section, if there is only one."""
        (kind, *others) = self.kinds
        return self.name if others or kind.has_names else f"{kind.value}.{self.name}"

    def default_in_words(self, kind: SectionKind, broker_id: int) -> str:
        """Return the default in a section of this kind."""
        if self in RATES.values() and kind is not SectionKind.BROKER:
            return "no rate of its own"
        return self.in_words(self.default, broker_id)


def about_tiny_rate(bytes_per_second: float) -> str | None:
    """Return a warning about a rate above 0 and below `MIN_RATE`."""
    if not 0 < bytes_per_second < MIN_RATE:
        return None
    return (
        f"the rate is {format_rate(bytes_per_second)}, less than the 64 KiB of one portion: catch-up almost stops. "
        f"{_FORGOTTEN_UNIT}"
    )


def _about_tiny_client_rate(bytes_per_second: float) -> str | None:
    if bytes_per_second >= _MIN_CLIENT_RATE:
        return None
    return f"the rate is {format_rate(bytes_per_second)}: clients wait seconds for each batch. {_FORGOTTEN_UNIT}"


def parse_until(value: object) -> datetime:
    """Parse the value of `until`. Raises InvalidValueError."""
    if isinstance(value, datetime) and value.tzinfo is not None and value.year in YEARS:
        return value
    raise InvalidValueError(f"expected a date and time with an offset, like 2026-12-01T06:00:00Z, found {shown(value)}")


def _parse_role_rate(value: object, at: Position) -> Rate:
    if at.kind is not SectionKind.BROKER:
        if isinstance(value, dict):
            raise InvalidValueError(
                "a rate that sets itself belongs to a broker, in [brokers.…]: expected a rate like "
                f'"10MiB/s", found {shown(value)}'
            )
        return Rate(parse_rate(value))
    most, source = parse_rate_or_source(value, path=at.path)
    if source is not None and source.deadline is not None and at.since is not None:
        source = replace(source, deadline=Deadline(at=source.deadline.moment(at.since)))
    return Rate(most, source)


def _parse_rate_above_0(value: object, _: Position) -> float:
    if isinstance(value, dict):
        raise InvalidValueError(f'expected a rate like "10MiB/s", found {shown(value)}')
    rate = parse_rate(value)
    if rate <= 0:
        raise InvalidValueError(f"expected a rate above 0, found {shown(value)}")
    return rate


def _parse_client_rate(value: object, at: Position) -> float:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    elif isinstance(value, str) and _DESCRIBED.fullmatch(value) and float(value).is_integer():
        value = int(float(value))
    return _parse_rate_above_0(value, at)


def _parse_number(value: object, _: Position) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidValueError(f"expected a number, found {shown(value)}")
    return float(value)


def _parse_wait(value: object, _: Position) -> timedelta:
    wait = parse_span(value)
    if wait > _LONGEST_WAIT:
        raise InvalidValueError(f"expected a time from 1s to {format_span(_LONGEST_WAIT)}, found {shown(value)}")
    return wait


def _parse_list(value: object, at: Position) -> ReplicaList:
    replicas = parse_replicas(value)
    if at.kind is SectionKind.BROKER and replicas.entries:
        raise InvalidValueError(
            f'expected "*" or "" (partitions are listed per topic, in [topics.…]), found {shown(value)}'
        )
    return replicas


def _parse_flag(value: object, _: Position) -> bool:
    if not isinstance(value, bool):
        raise InvalidValueError(f"expected true or false, found {shown(value)}")
    return value


def _flag_of_text(text: str) -> bool:
    if text not in ("true", "false"):
        raise InvalidValueError(f"expected true or false, found {shown(text)}")
    return text == "true"


def _rate_of_text(text: str) -> str | dict[str, Any]:
    """Return a rate that sets itself as a table, anything else as text."""
    if not text.strip().startswith("{"):
        return text
    try:
        found = load_toml(f"value = {text}")["value"]
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(f"expected a rate, or an inline table of TOML: {error}") from error
    if not isinstance(found, dict):
        raise InvalidValueError(f"expected a rate, or an inline table of TOML, found {shown(text)}")
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in found.items()}


def _rate_in_words(bytes_per_second: float, _: int) -> str:
    return format_rate(bytes_per_second)


def _flag_in_words(value: bool, _: int) -> str:
    return str(value).lower()


RATES: Mapping[Role, QuotaKey[Rate]] = {
    role: QuotaKey(
        name=f"{role.value}.replication.throttled.rate",
        kinds=(SectionKind.BROKER, SectionKind.TOPIC, SectionKind.PEER, SectionKind.RACK),
        values='a rate like "50MiB/s"; for brokers also a table',
        meaning=f"What listed replicas that are behind may {what}.",
        parse=_parse_role_rate,
        default=Rate(math.inf),
        in_words=lambda rate, _: str(rate),
        from_text=_rate_of_text,
        doubt=lambda rate: about_tiny_rate(rate.bytes_per_second) if rate.source is None else None,
    )
    for role, what in ((Role.LEADER, "have from this broker"), (Role.FOLLOWER, "bring this broker"))
}
REPLICAS: Mapping[Role, QuotaKey[ReplicaList]] = {
    role: QuotaKey(
        name=f"{role.value}.replication.throttled.replicas",
        kinds=_OF_LISTS,
        values='a list like "0:101,1:101", "*" or ""; for brokers the last two',
        meaning=f"The replicas that the {role.value}'s rate is for.",
        parse=_parse_list,
        default=ReplicaList(),
        in_words=lambda replicas, broker_id: _listed(replicas.partitions_on(broker_id)),
    )
    for role in Role
}
CLIENT_RATES: Mapping[ClientTraffic, QuotaKey[float]] = {
    traffic: QuotaKey(
        name=traffic.key,
        kinds=_OF_CLIENTS,
        values='a rate like "50MiB/s", above 0',
        meaning=f"What a client may {what}.",
        parse=_parse_client_rate,
        default=math.inf,
        in_words=_rate_in_words,
        doubt=_about_tiny_client_rate,
    )
    for traffic, what in ((ClientTraffic.PRODUCER, "produce"), (ClientTraffic.CONSUMER, "fetch"))
}
CATCH_UP_ONLY = QuotaKey[bool](
    name="catch_up_only",
    kinds=_OF_CLIENTS,
    values="true or false, beside consumer_byte_rate",
    meaning="Whether only reads behind the tail count.",
    parse=_parse_flag,
    default=False,
    in_words=_flag_in_words,
    from_text=_flag_of_text,
    beside=CLIENT_RATES[ClientTraffic.CONSUMER],
)
MAX_THROTTLE = QuotaKey[timedelta](
    name="max_throttle",
    kinds=_OF_CLIENTS,
    values='a time like "15s", from 1s to 1h',
    meaning="The longest time that a client over its quota is told to wait.",
    parse=_parse_wait,
    default=timedelta(seconds=15),
    in_words=lambda wait, _: format_span(wait),
)
LISTENER_RATE = QuotaKey[float](
    name="rate",
    kinds=(SectionKind.LISTENER,),
    values='a rate like "80MiB/s"',
    meaning="What clients and followers may fetch together.",
    parse=_parse_rate_above_0,
    default=math.inf,
    in_words=_rate_in_words,
    doubt=about_tiny_rate,
    is_required=True,
)
ENFORCE = QuotaKey[bool](
    name="enforce",
    kinds=(SectionKind.MODE,),
    values="true or false",
    meaning="Whether quotas are enforced; if not, traffic is only observed.",
    parse=_parse_flag,
    default=True,
    in_words=_flag_in_words,
    from_text=_flag_of_text,
)
UNTIL = QuotaKey[datetime | None](
    name="until",
    kinds=tuple(SectionKind),
    values="a time like 2026-12-01T06:00:00Z, with an offset",
    meaning="From then on the section does not count.",
    parse=lambda value, _: parse_until(value),
    default=None,
    in_words=lambda until, _: "none" if until is None else until.isoformat(),
)
LEFT_TO_BROKERS: Mapping[str, QuotaKey[float]] = {
    name: QuotaKey(
        name=name,
        kinds=_OF_CLIENTS,
        values="a number",
        meaning="Enforced by brokers, with kafka-configs, and not here.",
        parse=_parse_number,
        default=math.inf,
        in_words=lambda value, _: "none" if math.isinf(value) else f"{value:g}",
        doubt=lambda _: "brokers enforce it (kafka-configs sets it there), the sidecar does not",
    )
    for name in ("request_percentage", "controller_mutation_rate")
}
"""Kafka's other client quotas, which a file may have because it was written for both."""
OF_OVERRIDES: tuple[QuotaKey[Any], ...] = (
    *RATES.values(),
    *REPLICAS.values(),
    *CLIENT_RATES.values(),
    CATCH_UP_ONLY,
    MAX_THROTTLE,
    LISTENER_RATE,
    ENFORCE,
)
"""The keys that an override may have, whose end is the override's."""
ALL = (*OF_OVERRIDES, *LEFT_TO_BROKERS.values(), UNTIL)
OF_CLIENTS = tuple(key for key in OF_OVERRIDES if set(key.kinds) <= set(_OF_CLIENTS))
BY_KIND: Mapping[SectionKind, Mapping[str, QuotaKey[Any]]] = {
    kind: {key.name: key for key in ALL if kind in key.kinds} for kind in SectionKind
}


def _listed(partitions: Partitions) -> str:
    return str(partitions) or "none"
