"""Options that `plan`, `verify` and `move` share: how to reach a cluster, and the types of their values.

Knows click, not their purpose. Invariant: a wrong value is a usage error that says what was expected.
"""

from __future__ import annotations

import ipaddress
import math
import re
from typing import TYPE_CHECKING, Any, TypeVar

import click

from proxy.config.settings_values import MAX_PORT, parse_duration_seconds
from proxy.errors import ConfigurationError, InvalidValueError
from proxy.logs.terminal_text import without_user
from proxy.package import how_to_install
from proxy.quotas import parse_rate, parse_size, parse_span, shown

from ..commands.options import FILE

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from .cluster import Cluster

_Command = TypeVar("_Command", bound="Callable[..., Any]")
EXTRA = how_to_install("operator")


class Quantity(click.ParamType[float]):
    """A rate, size or duration as the sidecar's own files take it."""

    def __init__(self, name: str, parse: Callable[[object], float]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return self._parse(value)
        except InvalidValueError as error:
            self.fail(str(error), param, ctx)


def _parse_duration(value: object) -> float:
    """Read a duration as `set` does, which has days, or as proxy.toml does, which has milliseconds."""
    try:
        return parse_span(value).total_seconds()
    except InvalidValueError:
        return parse_duration_seconds(value)


def _parse_span(value: object) -> float:
    seconds = _parse_duration(value)
    if seconds <= 0:
        raise InvalidValueError(f"expected a duration above 0, found {shown(value)}")
    return seconds


def _parse_capacity(value: object) -> float:
    found = parse_rate(value)
    if found <= 0 or math.isinf(found):
        raise InvalidValueError(f"expected the speed of a network, such as 1.25GB/s, found {shown(value)}")
    return found


RATE = Quantity("rate", parse_rate)
CAPACITY = Quantity("rate", _parse_capacity)
"""A finite rate above 0."""
SIZE = Quantity("size", parse_size)
DURATION = Quantity("duration", _parse_duration)
SPAN = Quantity("duration", _parse_span)
"""A duration above 0."""
LASTING = Quantity("duration", lambda value: parse_span(value).total_seconds())
"""A duration as `set --for` takes it. Ends are in whole seconds, so less than a second would be over at once."""
_ADDRESS = re.compile(r"(?:[A-Za-z_]+://)?(?:\[(?P<v6>[^]]+)\]|[^][:/\s]+)(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
"""An address of a broker; without a port, 9092 is meant."""


def cluster_options(command: _Command) -> _Command:
    """Return ``--bootstrap``, ``--command-config`` and ``--hosts``."""
    for option in reversed(_CLUSTER_OPTIONS):
        command = option(command)
    return command


_CLUSTER_OPTIONS = (
    click.option(
        "--bootstrap", "--bootstrap-server", "bootstrap", multiple=True, metavar="HOST:PORT",
        help="A broker of the cluster; repeatable.",
    ),
    click.option(
        "--command-config", "properties", type=FILE, metavar="FILE",
        help="Kafka's client.properties, for TLS and SASL.",
    ),
    click.option(
        "--hosts", type=FILE, metavar="FILE",
        help="Addresses of brokers that do not resolve here, as in /etc/hosts.",
    ),
)  # fmt: skip


def connected(
    bootstrap: tuple[str, ...], properties: Path | None, hosts: Path | None
) -> AbstractContextManager[Cluster]:
    """Return the cluster, for the length of a block.

    Raises:
        ConfigurationError: kafka-python is not installed, or an address is none; ClusterError, on entering, if no
            broker answers.
    """
    try:
        # Only here, because the sidecar runs without kafka-python.
        from .cluster import Connection, connect
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"asking brokers needs the extra operator: {EXTRA} ({error})") from error
    servers = tuple(server.strip() for text in bootstrap for server in text.split(",") if server.strip())
    wrong = [server for server in servers if not _is_address(server)]
    if wrong or not servers:
        found = ", ".join(shown(without_user(server)) for server in wrong) or "nothing"
        raise ConfigurationError(f"--bootstrap: expected HOST:PORT, found {found}")
    return connect(Connection(servers, properties, hosts))


def _is_address(server: str) -> bool:
    """Return True if the text is an address; Kafka's own tools accept a protocol before it, too."""
    found = _ADDRESS.fullmatch(server)
    if found is None or not 0 < int(found["port"] or 1) <= MAX_PORT:
        return _is_ipv6(server)
    return found["v6"] is None or _is_ipv6(found["v6"])


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
