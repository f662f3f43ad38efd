"""``guard``: lead a broker's traffic around a sidecar that does not answer, and back through it when it does.

A process of its own beside the sidecar, as root or with CAP_NET_ADMIN. Invariant: the rules it put into the kernel's
packet filter is gone when it ends.
"""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING

import click

from proxy.config.settings_values import MAX_PORT, parse_duration_seconds
from proxy.errors import InvalidValueError
from proxy.quotas import shown

from ..configuration import load_configuration, url_of
from .options import FILE, config_option, set_option

if TYPE_CHECKING:
    from pathlib import Path

_MIN_AFTER_SECONDS = 0.5
MAX_PORTS = 15
"""The most ports of a multiport match; a range counts twice."""
_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_MAX_UID = 4294967294


@click.command("guard", short_help="Lead the broker around a dead sidecar, and back (fail open).")
@config_option
@set_option
@click.option(
    "--after",
    default="3s",
    show_default=True,
    metavar="DURATION",
    help="How long the sidecar may be silent, at least 0.5s.",
)
@click.option(
    "--textfile", type=FILE, metavar="FILE", help="Write metrics here, for node_exporter's textfile collector."
)
@click.option(
    "--ports",
    default="9092",
    show_default=True,
    metavar="PORTS",
    help='Only with egress.mode = "transparent": the ports that redirect.sh redirects.',
)
@click.option(
    "--uid", type=click.IntRange(0, _MAX_UID), default=65532, show_default=True, metavar="UID",
    help="The same: the sidecar's user id, whose connections are left alone.",
)  # fmt: skip
def command(
    config_path: Path,
    overrides: tuple[str, ...],
    after: str,
    textfile: Path | None,
    ports: str,
    uid: int,
) -> None:
    """Fail open: while the sidecar is dead, its broker replicates without it, unthrottled.

    Without a guard a dead sidecar cuts replication until it is restarted: replicas leave the ISR after
    replica.lag.time.max.ms (30 s), and producers with acks=all may fail. The guard asks the sidecar five times a
    second, at its private socket (control.directory in proxy.toml). At most --after after the last answer, iptables
    rules lead connections past the sidecar; when it is ready again, the rules go, and connections that went around are
    reset. Changes are logged to standard output and, with --textfile, counted in metrics that have alerts.

    It needs iptables, and root or CAP_NET_ADMIN. Its rules are in chains of its own, THROTTLE_GUARD_ and THROTTLE_OUT_
    with the broker's id; they go when it ends, except by SIGKILL. It sets net.ipv4.conf.all.route_localnet=1 where a
    way ends at loopback. It refuses roles of which one leg is encrypted and the other is not. See docs/guard.md.

    \b
    Examples:
      throttle-sidecar guard --config /etc/kafka-throttle-sidecar/proxy.toml
      throttle-sidecar guard --after 5s --textfile /var/lib/node_exporter/throttle_guard.prom
      systemctl enable --now kafka-throttle-guard          (of the .deb and the .rpm)
    """
    from proxy.control.directory import control_path, default_directory

    from ..guard.guarding import Edges, Guarding
    from ..guard.kernel import PacketFilter
    from ..guard.probing import ask_ready, assert_can_be_asked, dial, prove, targets
    from ..guard.resets import reset
    from ..guard.ways import ways_of

    _refuse_what_are_no_ports(ports)
    settings = load_configuration(config_path, overrides)
    ways = ways_of(settings, ports=ports, sidecar_uid=uid)
    seconds = _duration(after)
    directory = settings.control.directory or default_directory(settings.broker.id, os.environ)
    assert_can_be_asked(directory, url_of(settings.http))
    aimed_at = targets(ways)
    edges = Edges(
        PacketFilter(ways),
        ask=partial(ask_ready, directory),
        prove=lambda: prove(aimed_at, dial),
        reset=lambda: reset(ways.listeners),
    )
    Guarding(
        edges, asked=str(control_path(directory)), after_seconds=seconds, broker=settings.broker.id, textfile=textfile
    ).run()


def _refuse_what_are_no_ports(text: str) -> None:
    """Refuse text that is no list of ports, as redirect.sh does.

    The kernel gets them when the sidecar is dead, too late for a typo.
    """
    ranges = [each.split(":") for each in text.split(",")]
    right = all(len(ends) <= 2 and all(map(_is_port, ends)) and int(ends[0]) <= int(ends[-1]) for ends in ranges)
    if not right or sum(map(len, ranges)) > MAX_PORTS:
        expected = f"expected at most {MAX_PORTS} ports, 1 to {MAX_PORT}, with commas (9092,9094)"
        raise click.BadParameter(f"{expected}, found {shown(text)}", param_hint="'--ports'")


def _is_port(text: str) -> bool:
    return _PORT.fullmatch(text) is not None and int(text) <= MAX_PORT


def _duration(text: str) -> float:
    try:
        seconds = parse_duration_seconds(text)
    except InvalidValueError as error:
        raise click.BadParameter(str(error), param_hint="--after") from error
    if seconds < _MIN_AFTER_SECONDS:
        raise click.BadParameter(f"expected at least {_MIN_AFTER_SECONDS}s, found {text}", param_hint="--after")
    return seconds
