"""Reads quotas.toml: bytes in, a `QuotaFile` out, or every problem there is.

Knows the file's keys and how they may be written; `proxy.quotas.rules` has their meaning together. Reads no file and no
clock. Invariant: a `QuotaFile` comes out only if every key in the file was understood.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError, InvalidValueError, beginning
from ..files.toml_reading import KeyLines, did_you_mean, parse_toml
from .client_entity import CLIENTS, USERS, ClientEntity
from .keys import BY_KIND, RATES, SectionKind
from .names import DEFAULT, GLOB_WILDCARD, PLAIN_TEXT, TOPIC_OR_GLOB, flattened, is_broker_id, quoted
from .priorities import parse_priorities
from .sections import Draft, Layer, QuotaFile, Section
from .units import shown

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

MAX_PROBLEMS = 100
"""The most problems told of a file. 200 000 of them made a message of 15 MB, and it took 14 s to work out a
suggestion for each."""
MAX_PATH_CHARACTERS, MAX_REASON_CHARACTERS = 500, 1500
"""The most characters shown of a problem's key path and of its reason. The longest valid path is that of a topic, some
300 characters. Without a limit an endless key would stand in each of a hundred problems: a quotas.toml
of 202 KB made a message of 20 MB."""
MAX_GLOBS = 500
"""The most globs of a file: every topic name that is met may have to be compared with each of them."""
MAX_RATES = 100
"""The most topics and globs, the most peers, and the most racks that may have a rate of their own in one layer: a fetch
of replicas that are behind looks at the budget of each of its topics."""
MAX_CLIENTS = 500
"""The most sections of users and client ids of a layer: every client that is met may have to be compared with each of
them."""
_LAYER_KEYS = ("brokers", "peers", "racks", "topics", CLIENTS, USERS, "listener", "mode")
PRIORITIES = "priorities"
_FILE_KEYS = (*_LAYER_KEYS, PRIORITIES)
_REMOVED = {
    "schedules": "schedules were removed; instead, a cron job that runs `throttle-sidecar set KEY VALUE --for 8h`",
    "auto": "signals by queries were removed; the sidecar measures whether catch-up hurts; instead, have an alert of "
    "your own run `throttle-sidecar set KEY VALUE --for 10m`",
}
"""Keys of earlier versions, with their replacements."""
_HASH_DIGITS = 12

Toml = dict[str, Any]


def hash_of(content: bytes) -> str:
    """Return the name of a file in /throttle, the log and the metrics."""
    return hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]


def parse_quotas(content: bytes, *, source: str = "quotas.toml") -> QuotaFile:
    """Parse the text of quotas.toml. Raises ConfigurationError with every problem, each led by `source` and key
    path."""
    document = parse_toml(content, source=source)
    return _Reader(source, content).read(document, content)


def parse_layer(document: Toml, *, source: str, override: str, until: datetime | None, since: datetime) -> Layer:
    """Return the sections of an override, written as those of the file are.

    `source` leads each problem and each section's path; deadlines count from `since`. Raises ConfigurationError.
    """
    return _Reader("").layer(document, source, override, until, since)


class _TooManyProblemsError(Exception):
    """Ends the reading: more problems would not be reported."""


class _Reader:
    """Walks the document once and collects problems instead of stopping at the first."""

    def __init__(self, source: str, content: bytes = b"") -> None:
        self._source = source
        self._content = content
        self._lines: KeyLines | None = None
        self._problems: list[str] = []

    def read(self, document: Toml, content: bytes) -> QuotaFile:
        try:
            return self._read(document, content)
        except _TooManyProblemsError:
            raise self._too_many(self._source) from None

    def layer(self, document: Toml, source: str, override: str, until: datetime | None, since: datetime) -> Layer:
        try:
            found = self._layer(document, f"{source}: ", until=until, since=since)
        except _TooManyProblemsError:
            raise self._too_many(source) from None
        if self._problems:
            raise ConfigurationError(self._problems)
        return replace(found, override=override)

    def _read(self, document: Toml, content: bytes) -> QuotaFile:
        for key in document.keys() - set(_FILE_KEYS):
            expected = "brokers, peers, racks, topics, clients, users, listener, mode or priorities"
            unknown = f"unknown key; expected {expected}{did_you_mean(key, _FILE_KEYS)}"
            self._refuse(key, _REMOVED.get(key, unknown))
        base = self._layer(document)
        priorities = parse_priorities(document.get(PRIORITIES, {}), self._refuse)
        if self._problems:
            raise ConfigurationError(self._problems)
        return QuotaFile(base, hash_of(content), priorities)

    def _too_many(self, source: str) -> ConfigurationError:
        more = f"{source}: there may be more problems; these are the first {MAX_PROBLEMS}"
        return ConfigurationError([*self._problems, more])

    def _refuse(self, path: str, reason: str) -> None:
        place, told = beginning(path, MAX_PATH_CHARACTERS), beginning(reason, MAX_REASON_CHARACTERS)
        # A good file is not looked over for its lines.
        self._lines = self._lines or KeyLines(self._content.decode())
        line = self._lines.of(path)
        told += "" if line is None else f" (line {line})"
        self._problems.append(f"{self._source}: {place}: {told}" if self._source else f"{place}: {told}")
        if len(self._problems) >= MAX_PROBLEMS:
            raise _TooManyProblemsError

    def _table(self, parent: Toml, key: str, path: str) -> Toml:
        value = parent.get(key, {})
        if isinstance(value, dict):
            return value
        self._refuse(path, f"expected a table, found {shown(value)}")
        return {}

    def _layer(
        self,
        table: Toml,
        prefix: str = "",
        until: datetime | None = None,
        since: datetime | None = None,
    ) -> Layer:
        """Return the sections of a table. `until`, `since`: the end and the beginning of the override that they are."""
        found = _Found(prefix, until, since)
        self._brokers(self._table(table, "brokers", f"{prefix}brokers"), found)
        self._peers(self._table(table, "peers", f"{prefix}peers"), found)
        self._racks(self._table(table, "racks", f"{prefix}racks"), found)
        self._topics(self._table(table, "topics", f"{prefix}topics"), found)
        self._clients(self._table(table, CLIENTS, f"{prefix}{CLIENTS}"), f"{prefix}{CLIENTS}", found)
        self._users(self._table(table, USERS, f"{prefix}{USERS}"), found)
        if len(found.clients) > MAX_CLIENTS:
            expected = f"expected at most {MAX_CLIENTS} sections of clients and users, found {len(found.clients)}"
            self._refuse(f"{prefix}{CLIENTS}", expected)
        mode, listener = (self._of_sidecar(table, kind, found) for kind in (SectionKind.MODE, SectionKind.LISTENER))
        return Layer(
            found.brokers, found.default, found.topics, found.globs, mode, found.peers, found.racks, found.clients,
            listener=listener,
        )  # fmt: skip

    def _of_sidecar(self, table: Toml, kind: SectionKind, found: _Found) -> Section | None:
        """Return the section of a kind of which there is one; None if the table does not have it."""
        if kind.value not in table:
            return None
        path = f"{found.prefix}{kind.value}"
        return self._section(path, self._table(table, kind.value, path), found, kind)

    def _brokers(self, table: Toml, found: _Found) -> None:
        for key in table:
            path = f"{found.prefix}brokers.{key}"
            section = self._section(path, self._table(table, key, path), found, SectionKind.BROKER)
            if key == DEFAULT:
                found.default = section
            elif is_broker_id(key):
                found.brokers[int(key)] = section
            else:
                self._refuse(path, f'expected a broker id or "{DEFAULT}", found {shown(key)}')

    def _peers(self, table: Toml, found: _Found) -> None:
        for key in table:
            path = f"{found.prefix}peers.{key}"
            section = self._section(path, self._table(table, key, path), found, SectionKind.PEER)
            if is_broker_id(key):
                found.peers[int(key)] = section
            else:
                self._refuse(path, f"expected the other broker's id, found {shown(key)}")
        self._bound_rates(f"{found.prefix}peers", found.peers.values())

    def _racks(self, table: Toml, found: _Found) -> None:
        for name in table:
            path = f"{found.prefix}racks.{quoted(name)}"
            self._plain_text(path, name, "rack (broker.rack)")
            found.racks[name] = self._section(path, self._table(table, name, path), found, SectionKind.RACK)
        self._bound_rates(f"{found.prefix}racks", found.racks.values())

    def _plain_text(self, path: str, name: str, what: str) -> None:
        if not PLAIN_TEXT.fullmatch(name):
            expected = f"expected a {what} without quotes and backslashes and control characters"
            self._refuse(path, f"{expected}, of 1 to 249 characters, found {shown(name)}")

    def _bound_rates(self, path: str, sections: Collection[Section]) -> None:
        with_rates = sum(1 for section in sections if any(key in section.values for key in RATES.values()))
        if with_rates > MAX_RATES:
            self._refuse(path, f"expected at most {MAX_RATES} with a rate, found {with_rates}")

    def _topics(self, table: Toml, found: _Found) -> None:
        for name in table:
            path = f"{found.prefix}topics.{quoted(name)}"
            if not TOPIC_OR_GLOB.fullmatch(name):
                self._refuse(path, "expected a topic name or glob (letters, digits, . _ - and * ? [ ])")
            section = self._section(path, self._table(table, name, path), found, SectionKind.TOPIC)
            (found.globs if GLOB_WILDCARD.search(name) else found.topics)[name] = section
        if len(found.globs) > MAX_GLOBS:
            expected = f"expected at most {MAX_GLOBS} globs, found {len(found.globs)}"
            self._refuse(f"{found.prefix}topics", f"{expected} (a list of exact names may be as long as it likes)")
        self._bound_rates(f"{found.prefix}topics", [*found.topics.values(), *found.globs.values()])

    def _users(self, table: Toml, found: _Found) -> None:
        for name in table:
            path = f"{found.prefix}{USERS}.{quoted(name)}"
            self._plain_text(path, name, "user or glob")
            own = dict(self._table(table, name, path))
            self._clients(self._table(own, CLIENTS, f"{path}.{CLIENTS}"), f"{path}.{CLIENTS}", found, user=name)
            own.pop(CLIENTS, None)
            if own:
                found.clients[ClientEntity(name, None)] = self._section(path, own, found, SectionKind.USER)

    def _clients(self, table: Toml, parent: str, found: _Found, user: str | None = None) -> None:
        for name in table:
            path = f"{parent}.{quoted(name)}"
            self._plain_text(path, name, "client id or glob")
            section = self._section(path, self._table(table, name, path), found, SectionKind.CLIENT)
            found.clients[ClientEntity(user, name)] = section

    def _section(self, path: str, table: Toml, found: _Found, kind: SectionKind) -> Section:
        draft = Draft(kind, path, found.since)
        for key, value in flattened(table, whole=BY_KIND[kind]):
            try:
                draft.set(key, value)
            except InvalidValueError as error:
                self._refuse(f"{path}.{key}", str(error))
        for key, reason in draft.missing():
            self._refuse(f"{path}.{key}", reason)
        return draft.section(found.until)


@dataclass(slots=True)
class _Found:
    """A layer while its sections are read."""

    prefix: str
    until: datetime | None
    since: datetime | None
    brokers: dict[int, Section] = field(default_factory=dict)
    default: Section | None = None
    topics: dict[str, Section] = field(default_factory=dict)
    globs: dict[str, Section] = field(default_factory=dict)
    peers: dict[int, Section] = field(default_factory=dict)
    racks: dict[str, Section] = field(default_factory=dict)
    clients: dict[ClientEntity, Section] = field(default_factory=dict)
