"""A sidecar's proxy.toml, as its place in the cluster asks for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..host.addresses import HTTP_PORT, REDIRECT_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..brokers.security import Secured
    from ..host.addresses import Addresses


@dataclass(frozen=True, slots=True)
class SidecarConfig:
    """The configuration of one sidecar.

    Args:
        broker: beside which it stands.
        roles: `ingress`, `egress` or both.
        addresses: the cluster's.
        upstreams: per leader, where the egress goes on to; of the broker itself, where the ingress does.
        port: of everybody.
        secured: how brokers speak to each other, and by which keys; None: in plaintext.
        transparent: the egress takes what is redirected to it.
        settings: further lines of its tables.
    """

    broker: int
    roles: Sequence[str]
    addresses: Addresses
    upstreams: Mapping[int, str]
    port: int
    secured: Secured | None
    transparent: bool
    settings: Mapping[str, str] | None

    def toml(self, *, quotas_file: str, policy: str) -> str:
        """Return the text of the file."""
        tables = {
            "broker": f"id = {self.broker}",
            "ingress": self._ingress(),
            "egress": self._egress(),
            "quotas": f'file = "{quotas_file}"\npolicy = "{policy}"',
            "http": f'listen = "{self.addresses.http(self.broker)}:{HTTP_PORT}"\npartition_rates = true',
            "log": 'format = "json"',
        }
        if self.secured is not None:
            tables |= self.secured.sidecar_tables(self.broker, list(self.roles))
        for table, lines in (self.settings or {}).items():
            tables[table] = "\n".join(filter(None, (tables.get(table, ""), lines)))
        return "".join(f"[{table}]\n{lines}\n" for table, lines in tables.items() if lines)

    def _ingress(self) -> str:
        if "ingress" not in self.roles:
            return ""
        listen = self.addresses.ingress(self.broker)
        upstream = self.upstreams.get(self.broker, self.addresses.direct(self.broker))
        return f'listen = "{listen}:{self.port}"\nupstream = "{upstream}:{self.port}"'

    @property
    def _peers(self) -> dict[int, str]:
        return {leader: upstream for leader, upstream in self.upstreams.items() if leader != self.broker}

    def _egress(self) -> str:
        if "egress" not in self.roles:
            return ""
        if self.transparent:
            named = (
                f'[[egress.peers]]\nbroker = {b}\nupstream = "{u}:{self.port}"{self._named(b)}'
                for b, u in self._peers.items()
            )
            return "\n".join(['mode = "transparent"', f'listen = "[::]:{REDIRECT_PORT}"', *named])
        peers = (
            f"[[egress.peers]]\nbroker = {leader}\n"
            f'listen = "{self.addresses.egress(self.broker, leader)}:{self.port}"\n'
            f'upstream = "{upstream}:{self.port}"{self._named(leader)}'
            for leader, upstream in self._peers.items()
        )
        return "\n".join(['mode = "peers"', *peers])

    def _named(self, leader: int) -> str:
        """Return the name to verify: certificates have the leader's name, but taps and sidecars on the way are dialled
        by address."""
        return (
            ""
            if self.secured is None or not self.secured.security.network_encrypts
            else f'\nserver_name = "{self.addresses.name(leader)}"'
        )
