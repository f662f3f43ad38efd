"""proxy.toml, read once at start, as one frozen tree.

Each table is declared once, as a dataclass (`tables`). Knows nothing of quotas.toml but where it is. Invariant: a
`Settings` that exists lets the sidecar start, as far as the file alone can tell; every problem is reported
with its file (or override), key path, the expected and the found value. Where the last good quotas are kept, they
never take the place of the operator's own file.
"""

from __future__ import annotations

import enum
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ..files.reading import silent
from ..logs.log_settings import LogFormat, LogLevel, LogSettings
from ..quotas.units import format_size, shown
from .names_settings import LoginSettings, read_login
from .settings_file import override, read_document
from .settings_tables import (
    EgressMode,
    EgressSettings,
    HttpSettings,
    IngressSettings,
    LimitSettings,
    PeerSettings,
)
from .settings_values import Address, format_duration
from .tables import READ_APART, AtLeastOne, BrokerId, Bytes, Key, Problems, Seconds, TableReader
from .tls_reading import Ends, read_listener, read_role
from .tls_settings import ClientAuth, RoleTls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .settings_file import Toml


__all__ = [
    "load_settings",
    "Settings",
    "BrokerSettings",
    "IngressSettings",
    "EgressSettings",
    "EgressMode",
    "PeerSettings",
    "QuotaSettings",
    "HttpSettings",
    "ControlSettings",
    "JournalSettings",
    "LogSettings",
    "LimitSettings",
    "Policy",
    "LogFormat",
    "LogLevel",
    "Address",
]


def state_beside(quotas_path: Path) -> Path:
    """Return where the last good quotas are kept unless proxy.toml or a service manager says otherwise."""
    return quotas_path.parent / f".{quotas_path.name}.last-good"


WINDOW_NUM, WINDOW_SIZE_SECONDS = 11, 1
"""Kafka's defaults, and the samples over which `Policy.STRICT` measures rates."""
_STATE_BESIDE = state_beside(Path("quotas.toml"))


class Policy(enum.StrEnum):
    """The way in which a budget is spent: by limiting requests (STRICT), or by the broker's own arithmetic (KIP73)."""

    STRICT = "strict"
    KIP73 = "kip73"


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The settings of ``[broker]``."""

    id: BrokerId


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """The settings of ``[quotas]``."""

    file: Path = Path("quotas.toml")
    policy: Policy = Policy.STRICT
    gate_seconds: Annotated[Seconds, Key("gate")] = 0.1
    burst_seconds: Annotated[Seconds, Key("burst")] = 0.25
    window_num: AtLeastOne = WINDOW_NUM
    """The value of Kafka's replication.quota.window.num, for `Policy.KIP73`."""
    window_size_seconds: AtLeastOne = WINDOW_SIZE_SECONDS
    """The value of Kafka's replication.quota.window.size.seconds, for `Policy.KIP73`."""
    state: Path = _STATE_BESIDE
    """The file of the last good quotas: beside `file`, unless proxy.toml says otherwise."""

    def validate(self) -> Iterator[tuple[str, str]]:
        """Return the problems, by key."""
        if self.burst_seconds < self.gate_seconds:
            gate, burst = format_duration(self.gate_seconds), shown(format_duration(self.burst_seconds))
            yield "burst", f"expected no less than gate ({gate}), found {burst}"
        if self.policy is Policy.STRICT:
            for name, found, default in (
                ("window_num", self.window_num, WINDOW_NUM),
                ("window_size_seconds", self.window_size_seconds, WINDOW_SIZE_SECONDS),
            ):
                if found != default:
                    yield name, f'is of Kafka\'s own arithmetic: expected policy = "kip73" beside it, found {found}'


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """The settings of ``[control]``: the directory of the private sockets."""

    directory: Path | None = None
    """The directory of the private sockets; None: there are none. A command takes
    `proxy.control.directory.default_directory` in its place."""


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """The settings of ``[journal]``."""

    directory: Path
    rotate_every_seconds: Annotated[Seconds, Key("rotate_every")] = 600.0
    rotate_at_bytes: Annotated[Bytes, Key("rotate_at")] = 16 * 2**20
    keep_bytes: Annotated[Bytes, Key("keep")] = 2**30
    """The most bytes of all files of this broker together; the oldest go first."""

    def validate(self) -> Iterator[tuple[str, str]]:
        """Return the problems, by key."""
        if self.keep_bytes < 2 * self.rotate_at_bytes:
            rotate_at, keep = format_size(self.rotate_at_bytes), shown(format_size(self.keep_bytes))
            yield "keep", f"expected at least twice rotate_at ({rotate_at}), found {keep}"


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole file. Paths are resolved against the directory of `path`."""

    path: Path
    broker: BrokerSettings
    ingress: IngressSettings | None
    egress: EgressSettings | None
    quotas: QuotaSettings
    http: HttpSettings
    journal: JournalSettings | None
    log: LogSettings
    limits: LimitSettings
    login: Annotated[LoginSettings | None, Key("names"), READ_APART] = None
    control: ControlSettings = ControlSettings()

    @property
    def tls(self) -> tuple[RoleTls, ...]:
        """The legs of the roles that are served, and of HTTP if it is encrypted."""
        roles = tuple(table.tls for table in (self.ingress, self.egress) if table is not None)
        return roles if self.http.tls is None else (*roles, RoleTls(listen=self.http.tls))

    def validate(self) -> Iterator[tuple[str, str]]:
        """Return the problems, by key."""
        if self.ingress is None and self.egress is None:
            yield "ingress", "missing, and so is egress: expected at least one of the two roles"
        for number, peer in enumerate(() if self.egress is None else self.egress.peers):
            if peer.broker == self.broker.id:
                yield f"egress.peers[{number}].broker", f"{peer.broker} is broker.id, not a peer"
        for (first, address), (key, other) in combinations(_listeners(self), 2):
            # Our Kafka listeners share a port knowingly (proxy.network.listening); HTTP has its own socket.
            if address.collides_with(other) or (key == "http.listen" and address.overlaps(other)):
                yield key, f"{other} collides with {first}, {address}"


def load_settings(path: Path, overrides: Sequence[str] = (), environ: Mapping[str, str] = {}) -> Settings:
    """Read proxy.toml, then the environment's ``THROTTLE_…`` keys, then ``key.path=value`` overrides.

    Blocking. Raises ConfigurationError with every problem found.
    """
    document, text = read_document(path)
    problems = Problems(str(path), override(document, overrides, environ), text)
    settings = TableReader(path.parent, problems).table(Settings, "", document, path=path)
    settings = _with_keys(settings, document, problems)
    names_state = "state" in _table(document, "quotas")
    if names_state:
        _keep_apart(settings.quotas, problems)
    problems.raise_if_any()
    if not names_state:
        settings = replace(settings, quotas=replace(settings.quotas, state=state_place(settings.quotas.file, environ)))
    return settings


def _with_keys(settings: Settings, document: Toml, problems: Problems) -> Settings:
    """Add the tables that have Kafka's own keys."""
    base = settings.path.parent
    ingress, egress, http = settings.ingress, settings.egress, settings.http
    if ingress is not None:
        ends = Ends((ingress.listen.host,), (ingress.upstream.host,))
        ingress = replace(
            ingress, tls=read_role("ingress", _at(document, "ingress"), ends, base=base, problems=problems)
        )
    if egress is not None:
        listens = (egress.listen, *(peer.listen for peer in egress.peers))
        ends = Ends(
            tuple(address.host for address in listens if address is not None),
            tuple(peer.upstream.host for peer in egress.peers) or (None,),
        )
        egress = replace(egress, tls=read_role("egress", _at(document, "egress"), ends, base=base, problems=problems))
    tls = read_listener("http.tls", "http.listen", _at(document, "http"), base=base, problems=problems)
    if http.writers and (tls is None or tls.client_auth is ClientAuth.NONE):
        wanted = 'http.writers wants [http.tls] with ssl.client.auth = "required" or "requested"'
        problems.add("http.tls", f"missing, or asks for no certificates, and {wanted}")
    login = read_login(document.get("names", {}), base=base, problems=problems)
    return replace(settings, ingress=ingress, egress=egress, http=replace(http, tls=tls), login=login)


def _keep_apart(quotas: QuotaSettings, problems: Problems) -> None:
    """Refuse a state file that would replace the operator's own file."""
    found = overwrites(quotas.state, quotas.file)
    if found == str(quotas.state):
        problems.add("quotas.state", f"expected another file than quotas.file, found {shown(str(quotas.state))}")
    elif found is not None:
        reason = f"it is written by way of {found}, and that is quotas.file: expected another name"
        problems.add("quotas.state", f"{reason}, found {shown(str(quotas.state))}")


def _table(document: Toml, name: str) -> Toml:
    table = document.get(name)
    return table if isinstance(table, dict) else {}


def _at(document: Toml, name: str) -> object:
    return _table(document, name).get("tls", {})


def _listeners(settings: Settings) -> list[tuple[str, Address]]:
    listeners = []
    if settings.ingress is not None:
        listeners.append(("ingress.listen", settings.ingress.listen))
    if settings.egress is not None:
        if settings.egress.listen is not None:
            listeners.append(("egress.listen", settings.egress.listen))
        listeners += [
            (f"egress.peers[{n}].listen", peer.listen)
            for n, peer in enumerate(settings.egress.peers)
            if peer.listen is not None
        ]
    return [*listeners, ("http.listen", settings.http.listen)]


def state_place(quotas_path: Path, environ: Mapping[str, str]) -> Path:
    """Return the path, a service manager's word being heard: systemd names a unit's ``StateDirectory=`` in
    STATE_DIRECTORY, with colons between several (systemd.exec(5)), and may have left the unit nothing else that it can
    write."""
    folder = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    return Path(folder) / f"{quotas_path.name}.last-good" if folder else state_beside(quotas_path)


def written_first(path: Path) -> Path:
    """Return the file beside `path` that becomes it once it is whole."""
    return path.parent / f"{path.name}.new"


def overwrites(path: Path, other: Path) -> str | None:
    """Return which file would take the place of `other`, were the last good quotas kept at `path`; None if none would.

    However both are spelt, relatively or through links. None too if a disk hangs: a start must not hang with it.
    """
    if silent([path, other]):
        return None
    # A path with a zero byte in it leads nowhere, as opening it says.
    with suppress(ValueError):
        place = os.path.realpath(other)
        return next((str(each) for each in (path, written_first(path)) if os.path.realpath(each) == place), None)
    return None
