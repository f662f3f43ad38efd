"""proxy.toml as it is written: its tables and keys, and the single keys that the environment or ``--set``
replace.

Knows TOML types only; what an address or a duration is belongs to `proxy.config.settings`. Precedence: file,
environment (``THROTTLE_INGRESS__LISTEN``), ``--set ingress.listen=…``. Invariant: an unknown key never
passes.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from ..errors import ConfigurationError, InvalidValueError
from ..files.reading import read_bytes
from ..files.toml_reading import parse_toml
from ..quotas.units import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

ENVIRONMENT_PREFIX = "THROTTLE_"
_ENVIRONMENT_SEPARATOR = "__"

Toml = dict[str, Any]
BrokerId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
NonNegative = Annotated[int, msgspec.Meta(ge=0)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
SizeText = int | str


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file."""


class BrokerTable(Table, frozen=True):
    id: BrokerId


class IngressTable(Table, frozen=True):
    listen: str
    upstream: str
    tls: Toml = {}  # msgspec copies it


class PeerTable(Table, frozen=True):
    broker: BrokerId
    listen: str
    upstream: str
    server_name: str = ""


class EgressTable(Table, frozen=True):
    mode: str = "peers"
    peers: tuple[PeerTable, ...] = ()
    tls: Toml = {}


class NamedPeerTable(Table, frozen=True):
    """A peer that needs no listener of its own, only a name."""

    broker: BrokerId
    upstream: str
    server_name: str = ""


class TransparentEgressTable(Table, frozen=True):
    """`[egress]` with mode "transparent"."""

    mode: str
    listen: str
    peers: tuple[NamedPeerTable, ...] = ()
    tls: Toml = {}


class QuotasTable(Table, frozen=True):
    file: str = "quotas.toml"
    state: str = ""
    policy: str = "strict"
    gate: str = "100ms"
    burst: str = "250ms"
    window_num: AtLeastOne = 11
    window_size_seconds: AtLeastOne = 1


class NamesTable(Table, frozen=True):
    security: Toml = {}
    sasl: Toml = {}


class HttpTable(Table, frozen=True):
    listen: str = "127.0.0.1:9404"
    allowed_hosts: tuple[str, ...] = ()
    token_file: str = ""
    writers: tuple[str, ...] = ()
    partition_rates: bool = False
    require_token: bool = False
    reload: bool = True
    tls: Toml = {}


class JournalTable(Table, frozen=True):
    directory: str
    rotate_every: str = "10m"
    rotate_at: SizeText = "16MiB"
    keep: SizeText = "1GiB"


class LogTable(Table, frozen=True):
    format: str = "json"
    level: str = "info"


class LimitsTable(Table, frozen=True):
    max_request_bytes: SizeText = "1MiB"
    max_substitution_bytes: SizeText = "16MiB"
    max_connections: NonNegative = 10_000
    max_connections_per_source: NonNegative = 0
    max_held_bytes: SizeText = "64MiB"
    max_replicas: NonNegative = 200_000
    max_replicas_per_connection: NonNegative = 20_000
    max_memory: SizeText = "1GiB"
    frame_timeout: str = "30s"
    idle_timeout: str = "15m"
    connect_timeout: str = "10s"
    tls_handshake_timeout: str = "10s"
    max_tls_handshakes: AtLeastOne = 256
    drain: str = "10s"
    stall: str = "5s"
    stall_action: str = "exit"


_MOST_BYTES = 2**20
TABLES = ("broker", "ingress", "egress", "quotas", "names", "http", "journal", "log", "limits")


def read_document(path: Path) -> Toml:
    """Raises ConfigurationError if the file is missing, unreadable or not TOML (with the line)."""
    return parse_toml(read_bytes(path, most_bytes=_MOST_BYTES), source=str(path))


def override(document: Toml, overrides: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Replaces single keys of `document` in place; returns where each came from, by key path.

    Raises ConfigurationError for an override that is not ``key.path=value`` or leads nowhere.
    """
    origins: dict[str, str] = {}
    problems: list[str] = []
    for origin, path, text in (*_from_environment(environ), *_from_options(overrides, problems)):
        try:
            _assign(document, path.split("."), _toml_value(text))
            origins[path] = origin
        except InvalidValueError as error:
            problems.append(f"{origin}: {path}: {error}")
    if problems:
        raise ConfigurationError(problems)
    return origins


def _from_environment(environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [
        (name, name.removeprefix(ENVIRONMENT_PREFIX).lower().replace(_ENVIRONMENT_SEPARATOR, "."), text)
        for name, text in environ.items()
        if name.startswith(ENVIRONMENT_PREFIX) and _ENVIRONMENT_SEPARATOR in name
    ]


def _from_options(overrides: Sequence[str], problems: list[str]) -> list[tuple[str, str, str]]:
    found = []
    for option in overrides:
        path, separator, text = option.partition("=")
        if separator and path.strip():
            found.append(("--set", path.strip(), text))
        else:
            problems.append(f"--set: expected key.path=value, found {shown(option)}")
    return found


def _toml_value(text: str) -> Any:
    """A TOML value if it is one (101, true, "text"), else the text itself: addresses need no quotes."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if parsed.keys() == {"value"} else text


def _assign(document: Toml, keys: Sequence[str], value: Any) -> None:
    parent: Any = document
    for key in keys[:-1]:
        parent = parent.setdefault(key, {}) if isinstance(parent, dict) else _item(parent, key)
    if isinstance(parent, dict):
        parent[keys[-1]] = value
    else:
        _item(parent, keys[-1])
        parent[int(keys[-1])] = value


def _item(parent: Any, key: str) -> Any:
    if not isinstance(parent, list):
        raise InvalidValueError(f'there is no table that holds "{key}"')
    if not (re.fullmatch(r"[0-9]{1,4}", key) and int(key) < len(parent)):
        raise InvalidValueError(f'expected a position below {len(parent)}, found "{key}"')
    return parent[int(key)]
