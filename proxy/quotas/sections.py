"""quotas.toml as values: which section says what, before anyone asks for which broker or when.

Keys and entities are Kafka's own (KIP-73, kafka-configs): rates belong to brokers, replica lists to topics;
beyond Kafka a broker may carry a list that is ``"*"`` or ``""``, topic names may be globs, and a section may
end (`until`). Reads no file and no clock. Invariant: a `QuotaFile` exists only if every key in the file was
understood.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError, InvalidValueError
from ..roles import Role
from .replicas import ReplicaList, parse_replicas
from .units import parse_rate, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RATE_KEYS = {f"{role.value}.replication.throttled.rate": role for role in Role}
REPLICAS_KEYS = {f"{role.value}.replication.throttled.replicas": role for role in Role}
DEFAULT = "default"
_UNTIL = "until"
_SECTION_KEYS = (*RATE_KEYS, *REPLICAS_KEYS, _UNTIL)
_TOPIC = re.compile(r"[A-Za-z0-9._*?\[\]!-]{1,249}", re.ASCII)
_BROKER = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_GLOB = re.compile(r"[*?\[]")
_GLOB_WILDCARDS = re.compile(r"\[[^\]]*\]|[*?]")
_HASH_DIGITS = 12

Toml = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Section:
    """One ``[brokers.…]`` or ``[topics.…]``: only the keys that it sets."""

    path: str
    """As it is written in the file: ``topics."clicks-*"``."""
    rates: Mapping[Role, float] = field(default_factory=dict)
    replicas: Mapping[Role, ReplicaList] = field(default_factory=dict)
    until: datetime | None = None

    def holds(self, now: datetime) -> bool:
        return self.until is None or now < self.until


@dataclass(frozen=True, slots=True)
class QuotaFile:
    brokers: Mapping[int, Section]
    broker_default: Section | None
    topics: Mapping[str, Section]
    """By exact topic name."""
    globs: tuple[tuple[str, Section], ...]
    """Most specific first: by the number of literal characters, then by name."""
    enforce: bool
    hash: str

    def sections(self) -> Iterator[Section]:
        yield from self.brokers.values()
        if self.broker_default is not None:
            yield self.broker_default
        yield from self.topics.values()
        for _, section in self.globs:
            yield section


def parse_quotas(content: bytes, *, source: str = "quotas.toml") -> QuotaFile:
    """Raises ConfigurationError with every problem found, each led by `source` and the key path."""
    try:
        document = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{source}: not TOML: {error}") from error
    return _Reader(source).read(document, content)


class _Reader:
    """Walks the document once and collects problems instead of stopping at the first."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._problems: list[str] = []

    def read(self, document: Toml, content: bytes) -> QuotaFile:
        for key in document.keys() - {"brokers", "topics", "mode"}:
            supported = "unknown key; expected brokers, topics or mode"
            self._refuse(key, "not supported yet" if key == "schedules" else supported)
        brokers, default = self._brokers(self._table(document, "brokers"))
        topics = self._topics(self._table(document, "topics"))
        enforce = self._mode(self._table(document, "mode"))
        if self._problems:
            raise ConfigurationError(self._problems)
        return QuotaFile(
            brokers=brokers,
            broker_default=default,
            topics={name: section for name, section in topics.items() if not _GLOB.search(name)},
            globs=tuple(sorted(((n, s) for n, s in topics.items() if _GLOB.search(n)), key=_specificity)),
            enforce=enforce,
            hash=hashlib.sha256(content).hexdigest()[:_HASH_DIGITS],
        )

    def _refuse(self, path: str, reason: str) -> None:
        self._problems.append(f"{self._source}: {path}: {reason}")

    def _table(self, parent: Toml, key: str, *, path: str | None = None) -> Toml:
        value = parent.get(key, {})
        if isinstance(value, dict):
            return value
        self._refuse(path or key, f"expected a table, found {shown(value)}")
        return {}

    def _mode(self, table: Toml) -> bool:
        for key in table.keys() - {"enforce"}:
            self._refuse(f"mode.{key}", "unknown key; expected enforce")
        enforce = table.get("enforce", True)
        if not isinstance(enforce, bool):
            self._refuse("mode.enforce", f"expected true or false, found {shown(enforce)}")
        return enforce is not False

    def _brokers(self, table: Toml) -> tuple[dict[int, Section], Section | None]:
        sections: dict[int, Section] = {}
        default = None
        for key in table:
            path = f"brokers.{key}"
            section = self._section(path, self._table(table, key, path=path), of_broker=True)
            if key == DEFAULT:
                default = section
            elif _BROKER.fullmatch(key):
                sections[int(key)] = section
            else:
                self._refuse(path, f'expected a broker id or "{DEFAULT}", found {shown(key)}')
        return sections, default

    def _topics(self, table: Toml) -> dict[str, Section]:
        sections: dict[str, Section] = {}
        for name in table:
            path = f"topics.{_quoted(name)}"
            if not _TOPIC.fullmatch(name):
                self._refuse(path, "expected a topic name or glob (letters, digits, . _ - and * ? [ ])")
            sections[name] = self._section(path, self._table(table, name, path=path), of_broker=False)
        return sections

    def _section(self, path: str, table: Toml, *, of_broker: bool) -> Section:
        draft = _Draft(of_broker=of_broker)
        for key, value in _flattened(table):
            try:
                draft.set(key, value, path=path)
            except InvalidValueError as error:
                self._refuse(f"{path}.{key}", str(error))
        return Section(path, draft.rates, draft.replicas, draft.until)


@dataclass(slots=True)
class _Draft:
    """A section while its keys are read."""

    of_broker: bool
    rates: dict[Role, float] = field(default_factory=dict)
    replicas: dict[Role, ReplicaList] = field(default_factory=dict)
    until: datetime | None = None
    keys: set[str] = field(default_factory=set)

    def set(self, key: str, value: object, *, path: str) -> None:
        """Raises InvalidValueError."""
        if key in self.keys:
            raise InvalidValueError("set twice, as a dotted key and as a quoted one")
        self.keys.add(key)
        if key in RATE_KEYS and self.of_broker:
            self.rates[RATE_KEYS[key]] = parse_rate(value)
        elif key in REPLICAS_KEYS:
            self.replicas[REPLICAS_KEYS[key]] = _parse_list(value, of_broker=self.of_broker)
        elif key == _UNTIL:
            self.until = _parse_until(value)
        else:
            raise InvalidValueError(_unknown(path, key, value, of_broker=self.of_broker))


def _flattened(table: Toml, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """TOML nests dotted keys, quoting keeps them whole; both spellings come out as Kafka's dotted name."""
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flattened(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _parse_list(value: object, *, of_broker: bool) -> ReplicaList:
    replicas = parse_replicas(value)
    if of_broker and replicas.entries:
        raise InvalidValueError(
            f'expected "*" or "" (partitions are listed per topic, in [topics.…]), found {shown(value)}'
        )
    return replicas


def _parse_until(value: object) -> datetime:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    raise InvalidValueError(f"expected a date and time with an offset, like 2026-12-01T06:00:00Z, found {shown(value)}")


def _unknown(path: str, key: str, value: object, *, of_broker: bool) -> str:
    if key.startswith("schedules"):
        return "not supported yet"
    if key in RATE_KEYS:
        return "a rate belongs to a broker: set it in [brokers.default] or [brokers.N]"
    expected = ", ".join(_SECTION_KEYS if of_broker else (*REPLICAS_KEYS, _UNTIL))
    rest = next((key.removesuffix(f".{known}") for known in _SECTION_KEYS if key.endswith(f".{known}")), None)
    if isinstance(value, dict):
        rest = key
    if rest is None or of_broker:
        return f"unknown key; expected one of {expected}"
    topic = path.removeprefix("topics.").strip('"') + "." + rest
    return f'a topic name with dots needs quotes: [topics."{topic}"]'


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"'


def _specificity(item: tuple[str, Section]) -> tuple[int, str]:
    return -len(_GLOB_WILDCARDS.sub("", item[0])), item[0]
