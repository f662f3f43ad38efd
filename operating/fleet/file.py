"""fleet.toml: which sidecars there are, where they answer, and where each one's quotas are kept.

    [[sidecars]]
    broker = 101
    url = "http://kafka-101:9404"
    quotas = "quotas/101.toml"             # or configmap = "kafka/throttle-quotas"

Invariant: a `Fleet` that exists names every broker and URL once; every problem of a file is told at once, with its key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - the types of a table's fields are looked up when a file is read
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from proxy.config.settings_file import read_document
from proxy.config.settings_problems import Problems
from proxy.config.tables import BrokerId, Kind, TableReader
from proxy.errors import InvalidValueError
from proxy.quotas.units import shown
from proxy.url_text import names_user, without_user

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_SIDECARS = 1000
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_CONFIG_MAP = re.compile(rf"(?P<namespace>{_DNS_LABEL})/(?P<name>{_DNS_LABEL}(?:\.{_DNS_LABEL})*)")
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


def _parse_url(value: object) -> str:
    if not isinstance(value, str) or not _is_url(value):
        raise InvalidValueError(f"expected a URL like http://kafka-101:9404, found {_found(value)}")
    return value.rstrip("/")


def _found(url: object) -> str:
    """Show the URL without a password that may be in it. No sidecar takes a password; its token is read from
    `token_file`."""
    if not isinstance(url, str) or not names_user(url):
        return shown(url)
    return f"a user in {shown(without_user(url))} (a token's file is token_file)"


def _parse_config_map(value: object) -> tuple[str, str]:
    match = _CONFIG_MAP.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InvalidValueError(f'expected "namespace/name", found {shown(value)}')
    return match["namespace"], match["name"]


def _parse_key(value: object) -> str:
    if not (isinstance(value, str) and _KEY.fullmatch(value)):
        raise InvalidValueError(f"expected a key of a ConfigMap, found {shown(value)}")
    return value


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not names_user(url)
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class SidecarTable:
    """`[[sidecars]]`."""

    broker: BrokerId
    url: Annotated[str, Kind(_parse_url)]
    quotas: Path | None
    configmap: Annotated[tuple[str, str] | None, Kind(_parse_config_map)]
    """Namespace and name."""
    token_file: Path | None
    key: Annotated[str, Kind(_parse_key)] = "quotas.toml"

    def misfits(self) -> Iterator[tuple[str, str]]:
        """Return what does not fit, by key."""
        if self.quotas is not None and self.configmap is not None:
            yield "configmap", "expected either quotas or configmap, found both"


@dataclass(frozen=True, slots=True)
class KubernetesTable:
    """`[kubernetes]`."""

    context: str | None
    kubectl: str = "kubectl"


@dataclass(frozen=True, slots=True)
class FleetFile:
    """The whole file."""

    sidecars: tuple[SidecarTable, ...] = ()
    kubernetes: KubernetesTable = KubernetesTable(None)

    def misfits(self) -> Iterator[tuple[str, str]]:
        """Return what does not fit, by key."""
        if not self.sidecars:
            yield "sidecars", "expected at least one [[sidecars]], found none"
        elif len(self.sidecars) > MOST_SIDECARS:
            yield "sidecars", f"expected at most {MOST_SIDECARS} sidecars, found {len(self.sidecars)}"
        for key in ("broker", "url"):
            firsts: dict[object, int] = {}
            for position, sidecar in enumerate(self.sidecars):
                first = firsts.setdefault(getattr(sidecar, key), position)
                if first != position:
                    yield f"sidecars[{position}].{key}", f"{getattr(sidecar, key)} is sidecars[{first}]'s already"


@dataclass(frozen=True, slots=True)
class ConfigMapKey:
    namespace: str
    name: str
    key: str

    def __str__(self) -> str:
        return f"configmap {self.namespace}/{self.name}, {self.key}"


@dataclass(frozen=True, slots=True)
class Member:
    """One sidecar. Its quotas are in a file or under a key of a ConfigMap. Without either, it is only asked, not
    changed."""

    broker: int
    url: str
    quotas: Path | None = None
    configmap: ConfigMapKey | None = None
    token_file: Path | None = None
    """The file with the token that the sidecar wants for `PUT /quotas`; None: quotas are not sent to it over HTTP."""


@dataclass(frozen=True, slots=True)
class Fleet:
    path: Path
    members: tuple[Member, ...]
    kubectl: tuple[str, ...] = ("kubectl",)
    """How the cluster that keeps the ConfigMaps is reached."""

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(member.broker for member in self.members)


def load_fleet(path: Path) -> Fleet:
    """Read fleet.toml; paths in it are relative to it. Blocking. Raises ConfigurationError with every problem."""
    problems = Problems(str(path))
    file = TableReader(path.parent, problems).table(FleetFile, "", read_document(path))
    problems.raise_if_any()
    context = () if file.kubernetes.context is None else ("--context", file.kubernetes.context)
    return Fleet(path, tuple(_member(sidecar) for sidecar in file.sidecars), (file.kubernetes.kubectl, *context))


def _member(table: SidecarTable) -> Member:
    where = None if table.configmap is None else ConfigMapKey(*table.configmap, table.key)
    return Member(table.broker, table.url, table.quotas, where, table.token_file)
