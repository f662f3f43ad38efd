"""The options by which the lab's commands choose a cluster, and the types of their values.

Knows nothing of what a command does with it. Invariant: whatever a user types wrong is a usage error that says what was
expected.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import click

from proxy.errors import InvalidValueError
from proxy.quotas.units import parse_rate, parse_size

from .brokers.jars import version_numbers
from .brokers.releases import EVERY_RELEASE, RELEASES, release
from .brokers.security import Security
from .cluster.plan import ClusterPlan
from .errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_Command = TypeVar("_Command", bound="Callable[..., Any]")


class Quantity(click.ParamType[float]):
    """A rate or size as the sidecar's own files take it, such as 4MiB/s. Some of it, since how long a move takes is
    worked out from it, and what came of it is told as a share of it."""

    def __init__(self, name: str, parse: Callable[[object], float]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            found = self._parse(value)
        except InvalidValueError as error:
            self.fail(str(error), param, ctx)
        if not 0 < found < math.inf:
            self.fail(f"expected more than 0 and less than unlimited, found {value}", param, ctx)
        return found


class BrokerConfig(click.ParamType[tuple[str, str]]):
    """One line of server.properties."""

    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        key, equals, text = str(value).partition("=")
        if not key or not equals:
            self.fail(f"expected key=value, such as log.segment.bytes=1048576, found {value!r}", param, ctx)
        if not str(value).isascii():
            self.fail(f"expected ASCII, found {value!r}", param, ctx)
        return key, text


RATE = Quantity("rate", parse_rate)
SIZE = Quantity("size", parse_size)
BINARIES = tuple(sorted({row.kafka for row in EVERY_RELEASE}, key=version_numbers))
PROTOCOLS = tuple(dict.fromkeys(row.name for row in EVERY_RELEASE))


def cluster_options(command: _Command) -> _Command:
    """Add the options by which every command that starts brokers chooses them."""
    for option in reversed(_CLUSTER_OPTIONS):
        command = option(command)
    return command


security_option = click.option(
    "--security",
    type=click.Choice([each.value for each in Security]),
    default=Security.PLAINTEXT.value,
    help="How brokers speak to each other; clients have a plaintext listener.",
)
_CLUSTER_OPTIONS = (
    click.option("--kafka", type=click.Choice(BINARIES), help="Version of the brokers."),
    click.option(
        "--protocol",
        type=click.Choice(PROTOCOLS),
        show_default=f"{RELEASES[0].name}, or the first that --kafka has",
        help="inter.broker.protocol.version up to 2.8 (with ZooKeeper), metadata version from 3.3 on (KRaft).",
    ),
    click.option(
        "--broker-config", "broker_configs", type=BrokerConfig(), multiple=True, metavar="KEY=VALUE",
        help="For every broker's server.properties, such as max.incremental.fetch.session.cache.slots=1.",
    ),
)  # fmt: skip


def cluster_plan(brokers: tuple[int, ...], options: Mapping[str, Any], **more: Any) -> ClusterPlan:
    """Return the plan that `cluster_options` and `security_option` describe.

    Args:
        brokers: ids.
        options: of the command.
        more: other fields of the plan.
    """
    try:
        chosen = release(kafka=options["kafka"], protocol=options["protocol"])
        overrides = dict(options["broker_configs"])
        security = Security(options.get("security", Security.PLAINTEXT))
        return ClusterPlan(brokers=brokers, release=chosen, broker_overrides=overrides, security=security, **more)
    except LabError as error:
        raise click.UsageError(str(error)) from error
