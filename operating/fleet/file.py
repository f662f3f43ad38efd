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
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from proxy.config.settings_file import BrokerId, Table, read_document
from proxy.config.settings_problems import Problems
from proxy.quotas.units import shown

if TYPE_CHECKING:
    from pathlib import Path

MOST_SIDECARS = 1000
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_CONFIG_MAP = re.compile(rf"(?P<namespace>{_DNS_LABEL})/(?P<name>{_DNS_LABEL}(?:\.{_DNS_LABEL})*)")
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


class SidecarTable(Table, frozen=True):
    """`[[sidecars]]`."""

    broker: BrokerId
    url: str
    quotas: str | None = None
    configmap: str | None = None
    key: str = "quotas.toml"
    token_file: str | None = None


class KubernetesTable(Table, frozen=True):
    """`[kubernetes]`."""

    context: str | None = None
    kubectl: str = "kubectl"


@dataclass(frozen=True, slots=True)
class ConfigMapKey:
    namespace: str
    name: str
    key: str

    def __str__(self) -> str:
        return f"configmap {self.namespace}/{self.name}, {self.key}"


@dataclass(frozen=True, slots=True)
class Member:
    """One sidecar. Its quotas are in a file or under a key of a ConfigMap; with neither it is only looked at."""

    broker: int
    url: str
    quotas: Path | None = None
    configmap: ConfigMapKey | None = None
    token_file: Path | None = None
    """Holds what `PUT /quotas` of the sidecar wants to see; None: it is not asked to take quotas over HTTP."""


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
    document = read_document(path)
    problems = Problems(str(path), document, {})
    for key in sorted(document.keys() - {"sidecars", "kubernetes"}):
        problems.add(key, "unknown key; expected one of sidecars, kubernetes")
    kubernetes = KubernetesTable()
    try:
        kubernetes = msgspec.convert(document.get("kubernetes", {}), KubernetesTable)
    except msgspec.ValidationError as error:
        problems.add_from_msgspec("kubernetes", error, KubernetesTable)
    members = _members(document.get("sidecars"), path, problems)
    _refuse_repeated(members, problems)
    problems.raise_if_any()
    context = () if kubernetes.context is None else ("--context", kubernetes.context)
    return Fleet(path, tuple(members.values()), (kubernetes.kubectl, *context))


def _members(tables: Any, path: Path, problems: Problems) -> dict[int, Member]:
    """By position."""
    if not isinstance(tables, list) or not tables:
        problems.add("sidecars", "expected at least one [[sidecars]], found none")
        return {}
    if len(tables) > MOST_SIDECARS:
        problems.add("sidecars", f"expected at most {MOST_SIDECARS} sidecars, found {len(tables)}")
        return {}
    found = {}
    for position, table in enumerate(tables):
        place = f"sidecars[{position}]"
        try:
            found[position] = _member(place, msgspec.convert(table, SidecarTable), path.parent, problems)
        except msgspec.ValidationError as error:
            problems.add_from_msgspec(place, error, SidecarTable)
    return found


def _member(place: str, table: SidecarTable, folder: Path, problems: Problems) -> Member:
    url = table.url.rstrip("/")
    if not _is_url(url):
        problems.add(f"{place}.url", f"expected a URL like http://kafka-101:9404, found {shown(table.url)}")
    if table.quotas is not None and table.configmap is not None:
        problems.add(f"{place}.configmap", "expected either quotas or configmap, found both")
    if table.quotas == "":
        problems.add(f"{place}.quotas", 'expected a path, found ""')
    return Member(
        table.broker,
        url,
        None if not table.quotas else folder / table.quotas,
        None if table.configmap is None else _config_map(place, table.configmap, table.key, problems),
        None if table.token_file is None else folder / table.token_file,
    )


def _config_map(place: str, text: str, key: str, problems: Problems) -> ConfigMapKey | None:
    match = _CONFIG_MAP.fullmatch(text)
    if match is None:
        problems.add(f"{place}.configmap", f'expected "namespace/name", found {shown(text)}')
        return None
    if not _KEY.fullmatch(key):
        problems.add(f"{place}.key", f"expected a key of a ConfigMap, found {shown(key)}")
    return ConfigMapKey(match["namespace"], match["name"], key)


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _refuse_repeated(members: dict[int, Member], problems: Problems) -> None:
    brokers: dict[int, int] = {}
    urls: dict[str, int] = {}
    for position, member in members.items():
        first = brokers.setdefault(member.broker, position)
        if first != position:
            problems.add(f"sidecars[{position}].broker", f"{member.broker} is sidecars[{first}] already")
        first = urls.setdefault(member.url, position)
        if first != position:
            problems.add(f"sidecars[{position}].url", f"{member.url} is sidecars[{first}]'s already")
