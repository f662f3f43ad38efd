"""The only place that imports kafka-python's admin client, and teaches it to resolve names by a hosts file.

Names that this machine cannot resolve are the usual reason why brokers do not answer: `unresolved` finds them.

Imported only by code that asks a cluster: the sidecar runs without it (extra `operator`). It reads its message schemas
through an interface that Python 3.11 and 3.12 call deprecated. The warning is silenced here; otherwise a program that
turns warnings into errors could not import us.
Invariants: names that are not in the hosts file are resolved as usual; an address is never taken for a name.
"""

from __future__ import annotations

import socket
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from proxy.errors import ConfigurationError
from proxy.files.reading import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .login import Tokens


with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="(read|open)_text is deprecated", category=DeprecationWarning)
    from kafka import KafkaAdminClient
    from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType
    from kafka.errors import (
        IncompatibleBrokerVersion,
        KafkaConnectionError,
        KafkaError,
        KafkaTimeoutError,
        NodeNotReadyError,
        NoReassignmentInProgressError,
        UnknownBrokerIdError,
        UnknownTopicOrPartitionError,
        for_code,
    )
    from kafka.net.inet import KafkaNetSocket
    from kafka.net.sasl.oauth import AbstractTokenProvider


__all__ = [
    "AdminClient",
    "AlterConfigOp",
    "ConfigResource",
    "ConfigResourceType",
    "HostsFileSocket",
    "IncompatibleBrokerVersion",
    "KafkaConnectionError",
    "KafkaError",
    "KafkaTimeoutError",
    "NodeNotReadyError",
    "NoReassignmentInProgressError",
    "TokenProvider",
    "UnknownBrokerIdError",
    "for_code",
]
_REFUSAL_SECONDS = 1.0
MAX_HOSTS_BYTES = 2**20
"""Lines for some 30 000 brokers."""


class AdminClient(KafkaAdminClient):  # type: ignore[misc]  # kafka-python ships no types
    """An admin client that tells under which names it knows brokers, that raises where a broker refuses to show a
    config, and that finds another controller where the known one is dead."""

    def advertised_hosts(self) -> list[str]:
        """Return the names by which brokers are known so far, without asking any."""
        return [str(broker.host) for broker in self._manager.cluster.brokers()]

    async def _send_request_to_controller(self, *args: Any, **named: Any) -> object:
        """Ask a controller that does not answer for the last time: kafka-python would ask it for ever. With KRaft it is
        a broker that passes questions on, any that was alive."""
        known: int | None = self._controller_id  # type: ignore[has-type]
        try:
            return await super()._send_request_to_controller(*args, **named)
        except (KafkaConnectionError, NodeNotReadyError, RuntimeError) as error:
            self._controller_id = None
            if isinstance(error, RuntimeError):  # "Failed to find active controller id!"
                raise NodeNotReadyError(str(error)) from error
            if known is None:
                raise
        return await super()._send_request_to_controller(*args, **named)

    @classmethod
    def _describe_configs_process_responses(cls, responses: Sequence[Any], config_filter: str = "modified") -> object:
        """Raise the errors of single resources, which kafka-python ignores: a client that may not see a throttle would
        find none."""
        for result in (result for response in responses for result in response.results):
            # A topic that has been deleted meanwhile has no config.
            if result.error_code not in (0, UnknownTopicOrPartitionError.errno):
                raise for_code(result.error_code)(f"{result.resource_name}: {result.error_message or 'refused'}")
        return super()._describe_configs_process_responses(responses, config_filter)


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python ships no types
    """Gives each login of SASL OAUTHBEARER a fresh token, and the same extensions."""

    def __init__(self, tokens: Tokens) -> None:
        super().__init__()
        self._tokens = tokens

    def token(self) -> str:
        return self._tokens.fetch()

    def extensions(self) -> dict[str, str]:
        return dict(self._tokens.extensions)


class HostsFileSocket(KafkaNetSocket):  # type: ignore[misc]  # kafka-python ships no types
    """Registers itself for `proxy_url="hosts:///path"`; connects directly, to the address in that file."""

    SCHEMES = ("hosts",)

    def __init__(self, proxy_url: str) -> None:
        super().__init__(proxy_url)
        self._addresses = known_addresses(Path(unquote(urlparse(proxy_url).path)))

    def dns_lookup(self, host: str, port: int, raise_error: bool = False) -> object:
        return super().dns_lookup(self._addresses.get(host, host), port, raise_error)

    async def sock_connect(
        self, net: object, sock: socket.socket, sockaddr: object, timeout_at: float | None = None
    ) -> object:
        """Close the socket if the connection is refused. kafka-python leaves it open, and the garbage collector warns
        of it."""
        with ExitStack() as unless_connected:
            unless_connected.callback(sock.close)
            connected: object = await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
            unless_connected.pop_all()
        return connected


def unresolved(hosts: Iterable[str], hosts_file: Path | None = None) -> list[str]:
    """Return those that cannot be resolved, each once.

    Args:
        hosts: names or addresses.
        hosts_file: as /etc/hosts; None if there is none.
    """
    known = _names_in(hosts_file) if hosts_file is not None else frozenset()
    return [host for host in dict.fromkeys(hosts) if host not in known and not _resolves(host)]


def refused(servers: Iterable[str], hosts_file: Path | None = None) -> list[str]:
    """Return these host:port if each of them refuses connections, else none: kafka-python would ask them again and
    again.

    Raises ConfigurationError if the hosts file cannot be read.
    """
    known = known_addresses(hosts_file) if hosts_file is not None else {}
    asked = list(servers)
    return (
        asked
        if all(_refuses(known.get(host := host_of(each), host), each.rpartition(":")[2]) for each in asked)
        else []
    )


def _refuses(host: str, port: str) -> bool:
    try:
        socket.create_connection((host, int(port)), _REFUSAL_SECONDS).close()
    except ConnectionRefusedError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return False


def known_addresses(hosts_file: Path) -> dict[str, str]:
    """Return by name the addresses of a file like /etc/hosts; where a name has several, the last.

    Raises ConfigurationError if it cannot be read.
    """
    text = read_bytes(hosts_file, most_bytes=MAX_HOSTS_BYTES).decode("utf-8", "replace")
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return {name: address for address, *names in filter(None, lines) for name in names}


def host_of(server: str) -> str:
    """Return the host of an address: `kafka-101` of ``PLAINTEXT://kafka-101:9092``, ``[::1]:9092`` and the like."""
    address = server.rpartition("://")[2]
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.rpartition(":")[0] or address


def _resolves(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    return True


def _names_in(hosts_file: Path) -> frozenset[str]:
    """Return the names in the file; none if it cannot be read, because its user reports the error of it."""
    try:
        return frozenset(known_addresses(hosts_file))
    except ConfigurationError:
        return frozenset()
