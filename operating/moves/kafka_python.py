"""The one place that imports kafka-python's admin client, and teaches it to resolve names by a hosts file.

Imported only by what asks a cluster: the sidecar runs without it (extra `operator`). It reads its message schemas
through an interface that Python 3.11 and 3.12 call deprecated; whoever turns warnings into errors could not import us
otherwise.
Invariant: names that are not in the hosts file are resolved as ever.
"""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="(read|open)_text is deprecated", category=DeprecationWarning)
    from kafka import KafkaAdminClient
    from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType
    from kafka.errors import IncompatibleBrokerVersion, KafkaError, NodeNotReadyError, UnknownBrokerIdError
    from kafka.net.inet import KafkaNetSocket

if TYPE_CHECKING:
    from socket import socket

__all__ = [
    "AdminClient",
    "AlterConfigOp",
    "ConfigResource",
    "ConfigResourceType",
    "HostsFileSocket",
    "IncompatibleBrokerVersion",
    "KafkaError",
    "NodeNotReadyError",
    "UnknownBrokerIdError",
]


class AdminClient(KafkaAdminClient):  # type: ignore[misc]  # kafka-python ships no types
    """One that tells by which names it knows brokers."""

    def advertised_hosts(self) -> list[str]:
        """Return the names by which brokers are known so far, without asking any."""
        return [str(broker.host) for broker in self._manager.cluster.brokers()]


class HostsFileSocket(KafkaNetSocket):  # type: ignore[misc]  # kafka-python ships no types
    """Registers itself for `proxy_url="hosts:///path"`; connects directly, to the address in that file."""

    SCHEMES = ("hosts",)

    def __init__(self, proxy_url: str) -> None:
        super().__init__(proxy_url)
        text = Path(urlparse(proxy_url).path).read_text("utf-8")
        lines = (line.partition("#")[0].split() for line in text.splitlines())
        self._addresses = {name: address for address, *names in filter(None, lines) for name in names}

    def dns_lookup(self, host: str, port: int, raise_error: bool = False) -> object:
        return super().dns_lookup(self._addresses.get(host, host), port, raise_error)

    async def sock_connect(
        self, net: object, sock: socket, sockaddr: object, timeout_at: float | None = None
    ) -> object:
        """kafka-python leaves a socket whose connection is refused open, and the garbage collector complains."""
        with ExitStack() as unless_connected:
            unless_connected.callback(sock.close)
            connected: object = await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
            unless_connected.pop_all()
        return connected
