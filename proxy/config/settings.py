"""proxy.toml, read once at start, as one frozen tree.

Knows the file's keys through `proxy.config.settings_file`, and nothing of quotas.toml but where it is. Invariant: a
`Settings` that exists is one the sidecar can start with, as far as the file alone can tell; every problem is
reported with its file (or override), key path, what was expected and what was found.
"""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from ..logs.log_settings import LogFormat, LogLevel, LogSettings
from ..quotas.units import shown
from ..suggestions import did_you_mean
from . import settings_file as written
from .last_good import state_beside
from .names_settings import LoginSettings, read_login
from .settings_http import HttpSettings
from .settings_limits import LEAST_STALL_SECONDS, LimitSettings, StallAction
from .settings_problems import Problems
from .settings_reading import Values
from .settings_roles import EgressMode, EgressSettings, IngressSettings, PeerSettings
from .settings_values import (
    Address,
    parse_distinguished_name,
    parse_host_name,
    parse_server_name,
)
from .tls_reading import Ends, read_listener, read_role
from .tls_settings import ClientAuth, RoleTls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
    "JournalSettings",
    "LogSettings",
    "LimitSettings",
    "StallAction",
    "Policy",
    "LogFormat",
    "LogLevel",
    "Address",
]


_STATE_BESIDE = state_beside(Path("quotas.toml"))


class Policy(enum.StrEnum):
    """How a budget is spent: by asking for what it allows (STRICT), or by the broker's own arithmetic (KIP73)."""

    STRICT = "strict"
    KIP73 = "kip73"


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    id: int


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    file: Path
    """Resolved against the directory of proxy.toml."""
    policy: Policy
    gate_seconds: float
    burst_seconds: float
    window_num: int
    """replication.quota.window.num"""
    window_size_seconds: int
    """replication.quota.window.size.seconds"""
    state: Path = _STATE_BESIDE
    """Where the last good quotas are kept; resolved like `file`, and beside it unless proxy.toml says otherwise."""


@dataclass(frozen=True, slots=True)
class JournalSettings:
    directory: Path
    """Resolved against the directory of proxy.toml."""
    rotate_every_seconds: float
    rotate_at_bytes: int
    keep_bytes: int
    """Of all files of this broker together; the oldest go first."""


@dataclass(frozen=True, slots=True)
class Settings:
    path: Path
    broker: BrokerSettings
    ingress: IngressSettings | None
    egress: EgressSettings | None
    quotas: QuotaSettings
    http: HttpSettings
    journal: JournalSettings | None
    log: LogSettings
    limits: LimitSettings
    login: LoginSettings | None = None
    """Of [names]."""

    @property
    def tls(self) -> tuple[RoleTls, ...]:
        """Of the roles that are served, and of HTTP if it is encrypted."""
        roles = tuple(table.tls for table in (self.ingress, self.egress) if table is not None)
        return roles if self.http.tls is None else (*roles, RoleTls(listen=self.http.tls))


def load_settings(path: Path, overrides: Sequence[str] = (), environ: Mapping[str, str] = {}) -> Settings:
    """Reads proxy.toml, then the environment's ``THROTTLE_…`` keys, then ``key.path=value`` overrides.

    Blocking. Raises ConfigurationError with every problem found.
    """
    document = written.read_document(path)
    origins = written.override(document, overrides, environ)
    return _Reader(path, document, Problems(str(path), document, origins)).read()


class _Reader(Values):
    """Turns the document into settings. A value that cannot be read is recorded and replaced by a stand-in so
    that the others are checked too; `read` never returns while there is a problem."""

    def read(self) -> Settings:
        for key in self._document.keys() - set(written.TABLES):
            self._problems.add_unknown(
                key, f"unknown key; expected one of {', '.join(written.TABLES)}{did_you_mean(key, written.TABLES)}"
            )
        broker = self._table("broker", written.BrokerTable, written.BrokerTable(id=-1))
        ingress, egress = self._ingress(), self._egress(own_id=broker.id)
        if "ingress" not in self._document and "egress" not in self._document:
            self._problems.add("ingress", "missing, and so is egress: expected at least one of the two roles")
        settings = Settings(
            path=self._path,
            broker=BrokerSettings(broker.id),
            ingress=ingress,
            egress=egress,
            quotas=self._quotas(),
            http=self._http(),
            journal=self._journal(),
            log=self._log(),
            limits=self._limits(),
            login=self._login(),
        )
        self._refuse_collisions(settings)
        self._problems.raise_if_any()
        return settings

    def _ingress(self) -> IngressSettings | None:
        if "ingress" not in self._document:
            return None
        table = self._table("ingress", written.IngressTable, written.IngressTable("stand-in:0", "stand-in:1"))
        listen = self._address("ingress.listen", table.listen)
        upstream = self._address("ingress.upstream", table.upstream, dialled=True)
        if listen == upstream:
            self._problems.add("ingress.upstream", f"expected the broker, found ingress.listen itself ({upstream})")
        return IngressSettings(
            listen, upstream, self._tls("ingress", table.tls, Ends((listen.host,), (upstream.host,)))
        )

    def _egress(self, *, own_id: int) -> EgressSettings | None:
        if "egress" not in self._document:
            return None
        written_as = self._document["egress"]
        transparent = isinstance(written_as, dict) and written_as.get("mode") == EgressMode.TRANSPARENT
        table, egress = self._transparent_egress() if transparent else self._peers_egress()
        listens = (egress.listen, *(peer.listen for peer in egress.peers))
        ends = Ends(
            tuple(address.host for address in listens if address is not None),
            tuple(peer.upstream.host for peer in egress.peers) or (None,),
        )
        egress = replace(egress, tls=self._tls("egress", table.tls, ends))
        for position, peer in enumerate(egress.peers):
            if peer.broker == own_id:
                self._problems.add(f"egress.peers[{position}].broker", f"{own_id} is broker.id, not a peer")
            if peer.broker in (earlier.broker for earlier in egress.peers[:position]):
                self._problems.add(f"egress.peers[{position}].broker", f"{peer.broker} is listed twice")
        return egress

    def _tls(self, role: str, tables: written.Toml, ends: Ends) -> RoleTls:
        return read_role(role, tables, ends, base=self._path.parent, problems=self._problems)

    def _peers_egress(self) -> tuple[written.EgressTable, EgressSettings]:
        table = self._table("egress", written.EgressTable, written.EgressTable(peers=_STAND_IN_PEERS))
        mode = self._choice("egress.mode", table.mode, EgressMode)
        if mode is EgressMode.PEERS and table.mode == mode and not table.peers:
            self._problems.add("egress.peers", "expected at least one [[egress.peers]], found none")
        peers = tuple(self._peer(f"egress.peers[{n}]", peer) for n, peer in enumerate(table.peers))
        return table, EgressSettings(mode, peers)

    def _transparent_egress(self) -> tuple[written.TransparentEgressTable, EgressSettings]:
        mode = EgressMode.TRANSPARENT
        stand_in = written.TransparentEgressTable(mode, "stand-in:0")
        table = self._table("egress", written.TransparentEgressTable, stand_in)
        peers = tuple(
            PeerSettings(
                peer.broker,
                None,
                self._address(f"egress.peers[{n}].upstream", peer.upstream, dialled=True),
                self._server_name(f"egress.peers[{n}]", peer.server_name),
            )
            for n, peer in enumerate(table.peers)
        )
        return table, EgressSettings(mode, peers, self._address("egress.listen", table.listen))

    def _peer(self, path: str, table: written.PeerTable) -> PeerSettings:
        listen = self._address(f"{path}.listen", table.listen)
        upstream = self._address(f"{path}.upstream", table.upstream, dialled=True)
        if listen == upstream:
            self._problems.add(f"{path}.upstream", f"expected the peer, found our own listen, {upstream}")
        return PeerSettings(table.broker, listen, upstream, self._server_name(path, table.server_name))

    def _server_name(self, path: str, name: str) -> str:
        return self._value(f"{path}.server_name", parse_server_name, name, stand_in="stand-in") if name else ""

    def _quotas(self) -> QuotaSettings:
        table = self._table("quotas", written.QuotasTable, written.QuotasTable())
        gate = self._seconds("quotas.gate", table.gate)
        burst = self._seconds("quotas.burst", table.burst)
        if burst < gate:
            self._problems.add("quotas.burst", f"expected no less than gate ({table.gate}), found {shown(table.burst)}")
        file = self._path.parent / table.file
        state = self._path.parent / table.state if table.state else state_beside(file)
        if os.path.normpath(state) == os.path.normpath(file):
            self._problems.add("quotas.state", f"expected another file than quotas.file, found {shown(table.state)}")
        return QuotaSettings(
            file=file,
            state=state,
            policy=self._choice("quotas.policy", table.policy, Policy),
            gate_seconds=gate,
            burst_seconds=burst,
            window_num=table.window_num,
            window_size_seconds=table.window_size_seconds,
        )

    def _login(self) -> LoginSettings | None:
        self._table("names", written.NamesTable, written.NamesTable())
        tables = self._document.get("names", {})
        return read_login(tables if isinstance(tables, dict) else {}, base=self._path.parent, problems=self._problems)

    def _http(self) -> HttpSettings:
        table = self._table("http", written.HttpTable, written.HttpTable("stand-in:0"))
        hosts = tuple(
            self._value(f"http.allowed_hosts[{n}]", parse_host_name, name, stand_in="stand-in")
            for n, name in enumerate(table.allowed_hosts)
        )
        token_file = self._path.parent / table.token_file if table.token_file else None
        tls = read_listener("http.tls", "http.listen", table.tls, base=self._path.parent, problems=self._problems)
        writers = tuple(
            self._value(f"http.writers[{n}]", parse_distinguished_name, name, stand_in="CN=stand-in")
            for n, name in enumerate(table.writers)
        )
        if writers and (tls is None or tls.client_auth is ClientAuth.NONE):
            wanted = 'http.writers wants [http.tls] with ssl.client.auth = "required" or "requested"'
            self._problems.add("http.tls", f"missing, or asks for no certificates, and {wanted}")
        if table.require_token and token_file is None:
            self._problems.add("http.token_file", "missing, and http.require_token wants one")
        return HttpSettings(
            self._address("http.listen", table.listen),
            hosts,
            token_file,
            writers=writers,
            partition_rates=table.partition_rates,
            require_token=table.require_token,
            reload=table.reload,
            tls=tls,
        )

    def _journal(self) -> JournalSettings | None:
        if "journal" not in self._document:
            return None
        table = self._table("journal", written.JournalTable, written.JournalTable("stand-in"))
        rotate_at, keep = self._size("journal.rotate_at", table.rotate_at), self._size("journal.keep", table.keep)
        if keep < 2 * rotate_at:
            expected = f"expected at least twice rotate_at ({table.rotate_at})"
            self._problems.add("journal.keep", f"{expected}, found {shown(table.keep)}")
        return JournalSettings(
            directory=self._path.parent / table.directory,
            rotate_every_seconds=self._seconds("journal.rotate_every", table.rotate_every),
            rotate_at_bytes=rotate_at,
            keep_bytes=keep,
        )

    def _log(self) -> LogSettings:
        table = self._table("log", written.LogTable, written.LogTable())
        return LogSettings(
            format=self._choice("log.format", table.format, LogFormat),
            level=self._choice("log.level", table.level, LogLevel),
        )

    def _limits(self) -> LimitSettings:
        table = self._table("limits", written.LimitsTable, written.LimitsTable())
        return LimitSettings(
            max_request_bytes=self._size("limits.max_request_bytes", table.max_request_bytes),
            max_substitution_bytes=self._size("limits.max_substitution_bytes", table.max_substitution_bytes),
            connect_timeout_seconds=self._seconds("limits.connect_timeout", table.connect_timeout),
            drain_seconds=self._seconds("limits.drain", table.drain),
            max_connections=table.max_connections,
            max_connections_per_source=table.max_connections_per_source,
            max_held_bytes=self._size("limits.max_held_bytes", table.max_held_bytes),
            max_replicas=table.max_replicas,
            max_replicas_per_connection=table.max_replicas_per_connection,
            max_memory_bytes=self._size("limits.max_memory", table.max_memory),
            tls_handshake_seconds=self._seconds("limits.tls_handshake_timeout", table.tls_handshake_timeout),
            max_tls_handshakes=table.max_tls_handshakes,
            frame_timeout_seconds=self._seconds("limits.frame_timeout", table.frame_timeout),
            idle_timeout_seconds=self._seconds("limits.idle_timeout", table.idle_timeout),
            stall_seconds=self._stall(table.stall),
            stall_action=self._choice("limits.stall_action", table.stall_action, StallAction),
        )

    def _stall(self, value: str) -> float:
        seconds = self._seconds("limits.stall", value)
        if 0 < seconds < LEAST_STALL_SECONDS:
            self._problems.add("limits.stall", f"expected at least {LEAST_STALL_SECONDS:g}s, found {shown(value)}")
        return seconds

    def _refuse_collisions(self, settings: Settings) -> None:
        for (first, address), (path, other) in combinations(_listeners(settings), 2):
            # Our Kafka listeners share a port knowingly (proxy.network.listening); HTTP has its own socket.
            if address.collides_with(other) or (path == "http.listen" and address.overlaps(other)):
                self._problems.add(path, f"{other} collides with {first}, {address}")


_STAND_IN_PEERS = (written.PeerTable(-2, "stand-in:0", "stand-in:1"),)


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
