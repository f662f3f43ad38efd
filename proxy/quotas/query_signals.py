"""Signals that the operator names: a query of Prometheus' and what its value may be.

    [auto.signals.produce_p99]
    url = "http://prometheus:9090"
    query = "max(kafka_produce_p99_seconds)"
    target = 0.05

They are for every rate with `auto = true` of the file. Knows no network. Invariant: a name is none of the sidecar's own
signals, a URL is one of HTTP, a target is a number above 0.
"""

from __future__ import annotations

import enum
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from ..errors import InvalidValueError
from ..suggestions import did_you_mean
from ..url_text import names_user, without_user
from .units import shown

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_SIGNALS = 16
"""Each is a series of the metrics and a request every few seconds."""
MOST_QUERY_CHARACTERS = 4096
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}", re.ASCII)
_KEYS = ("url", "query", "target")


class Signal(enum.StrEnum):
    """What the sidecar measures itself (`rates.signals`); the value is the metric label `signal`."""

    IN_SYNC_FOLLOWERS = "in_sync_followers"
    CATCH_UP_READS = "catch_up_reads"
    IN_SYNC_REPLICAS = "in_sync_replicas"
    IO_PRESSURE = "io_pressure"
    NETWORK = "network"


_OWN = frozenset(Signal)


class QuerySignal(NamedTuple):
    name: str
    url: str
    """Of the server, without the API's path."""
    query: str
    target: float
    """The greatest value at which nothing hurts. The pressure is the query's value divided by it."""


def parse_signals(table: object, refuse: Callable[[str, str], None]) -> tuple[QuerySignal, ...]:
    """Return what ``[auto]`` says; `refuse` is told of each problem, with its key path and what is wrong."""
    if not isinstance(table, dict):
        refuse("auto", f"expected a table, found {shown(table)}")
        return ()
    for key in table.keys() - {"signals"}:
        refuse(f"auto.{key}", f"unknown key; expected signals{did_you_mean(key, ('signals',))}")
    signals = table.get("signals", {})
    if not isinstance(signals, dict):
        refuse("auto.signals", f"expected tables, each written [auto.signals.NAME], found {shown(signals)}")
        return ()
    if len(signals) > MOST_SIGNALS:
        refuse("auto.signals", f"expected at most {MOST_SIGNALS}, found {len(signals)}")
        return ()
    found = [_signal(name, value, refuse) for name, value in signals.items()]
    return tuple(signal for signal in found if signal is not None)


def _signal(name: str, table: Any, refuse: Callable[[str, str], None]) -> QuerySignal | None:
    path = f"auto.signals.{name}"
    if not _NAME.fullmatch(name) or name in _OWN:
        taken = ", not one of the sidecar's own" if name in _OWN else ""
        refuse(path, f"expected a name of small letters, digits and _{taken}, found {shown(name)}")
    if not isinstance(table, dict):
        refuse(path, f"expected a table with {', '.join(_KEYS)}, found {shown(table)}")
        return None
    for key in table.keys() - set(_KEYS):
        refuse(f"{path}.{key}", f"unknown key; expected one of {', '.join(_KEYS)}{did_you_mean(key, _KEYS)}")
    values: dict[str, Any] = {}
    for key, parse in (("url", _url), ("query", _query), ("target", _target)):
        try:
            values[key] = parse(table.get(key))
        except InvalidValueError as error:
            refuse(f"{path}.{key}", str(error))
    return QuerySignal(name, **values) if values.keys() == set(_KEYS) else None


def _url(value: object) -> str:
    told = without_user(value) if isinstance(value, str) else value
    expected = f'expected a URL like "http://prometheus:9090", found {_found(told)}'
    if not isinstance(value, str):
        raise InvalidValueError(expected)
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as error:
        # A port that is none may be a piece of a password with a slash in it.
        raise InvalidValueError(expected if names_user(value) else f"{expected}: {error}") from error
    # An empty query or fragment is none to urlsplit, and the API's path would be behind it all the same.
    has_more = "?" in value or "#" in value or parts.username is not None or port == 0
    # urlsplit overlooks newlines and tabs; http.client does not.
    is_plain = value.isascii() and value.isprintable() and " " not in value
    if parts.scheme not in ("http", "https") or not parts.hostname or has_more or not is_plain:
        raise InvalidValueError(expected)
    return value.rstrip("/")


def _query(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidValueError(f"expected a query of Prometheus', found {_found(value)}")
    if len(value) > MOST_QUERY_CHARACTERS:
        raise InvalidValueError(f"expected at most {MOST_QUERY_CHARACTERS} characters, found {len(value)}")
    return value


def _target(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InvalidValueError(f"expected a number above 0, as the query's value is told, found {_found(value)}")
    return float(value)


def _found(value: object) -> str:
    return "none" if value is None else shown(value)
