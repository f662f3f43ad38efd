"""How ``status`` looks: one row per sidecar and role, then the partitions furthest behind.

Pure: pages in, a rich renderable out. Invariant: a key that is new in /throttle does not break an older
``status``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..quotas import format_bytes
from .quota_words import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_PARTITIONS = 10


class PartitionState(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    peer: str | None = None
    in_sync: bool = True
    lag_messages: int = 0
    rate_bytes_per_second: float = 0.0


class RoleState(msgspec.Struct, frozen=True):
    quota_bytes_per_second: float | None
    """None: unlimited."""
    rate_bytes_per_second: float
    omitted_partitions_total: int = 0
    substituted_partitions_total: int = 0
    withheld_bytes_total: int = 0
    connections: int = 0
    held_requests: int = 0
    lag_messages: int = 0
    eta_seconds: float | None = None
    undecoded: dict[str, int] = {}
    partitions: tuple[PartitionState, ...] = ()


class QuotasState(msgspec.Struct, frozen=True):
    hash: str
    last_reload_successful: bool = True
    last_error: str | None = None


class Page(msgspec.Struct, frozen=True):
    """What /throttle answers, as far as it is shown."""

    broker: int
    policy: str
    enforce: bool
    quotas: QuotasState
    roles: dict[str, RoleState]


def layout(pages: Sequence[Page], unreachable: Sequence[str] = ()) -> RenderableType:
    """`unreachable` are messages of sidecars that gave no page."""
    parts: list[RenderableType] = [_roles(pages)]
    if any(role.partitions for page in pages for role in page.roles.values()):
        parts += [Text(), _partitions(pages)]
    parts += [Text(f"warning: {warning}", style="yellow") for page in pages for warning in _warnings(page)]
    parts += [Text(message, style="red") for message in unreachable]
    return Group(*parts)


def _roles(pages: Sequence[Page]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("broker")
    table.add_column("role")
    for heading in ("quota", "rate", "of quota", "omitted", "lag", "ETA", "connections", "holding"):
        table.add_column(heading, justify="right", no_wrap=True)
    for page in pages:
        for name, role in page.roles.items():
            table.add_row(str(page.broker), name, *_role_cells(role))
    return table


def _role_cells(role: RoleState) -> tuple[str | Text, ...]:
    return (
        "unlimited" if role.quota_bytes_per_second is None else _rate(role.quota_bytes_per_second),
        _rate(role.rate_bytes_per_second),
        _share(role),
        f"{role.omitted_partitions_total + role.substituted_partitions_total}",
        f"{role.lag_messages}",
        format_duration(role.eta_seconds),
        f"{role.connections}",
        f"{role.held_requests}",
    )


_OVER = 1.05
"""The promise for any eleven seconds, which is what the rate is measured over; above it something is
wrong."""


def _share(role: RoleState) -> Text:
    if not role.quota_bytes_per_second:
        return Text("-")
    share = role.rate_bytes_per_second / role.quota_bytes_per_second
    return Text(f"{share:.0%}", style="red" if share > _OVER else "green")


def _partitions(pages: Sequence[Page]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("broker", "role", "topic", "peer"):
        table.add_column(heading)
    for heading in ("partition", "lag", "rate", "in sync"):
        table.add_column(heading, justify="right", no_wrap=True)
    rows = [
        (page.broker, name, partition)
        for page in pages
        for name, role in page.roles.items()
        for partition in role.partitions
    ]
    rows.sort(key=lambda row: -row[2].lag_messages)
    for broker, name, found in rows[:MOST_PARTITIONS]:
        table.add_row(
            str(broker),
            name,
            found.topic,
            found.peer or "-",
            str(found.partition),
            str(found.lag_messages),
            _rate(found.rate_bytes_per_second),
            "yes" if found.in_sync else "no",
        )
    return table


def _warnings(page: Page) -> list[str]:
    warnings = [] if page.enforce else [f"broker {page.broker}: observing only, mode.enforce is false"]
    if not page.quotas.last_reload_successful:
        warnings.append(f"broker {page.broker}: last good quotas kept: {page.quotas.last_error}")
    return warnings + [
        f"broker {page.broker}, {name}: {count} undecoded ({reason}), not throttled"
        for name, role in page.roles.items()
        for reason, count in role.undecoded.items()
    ]


def _rate(bytes_per_second: float) -> str:
    return f"{format_bytes(bytes_per_second)}/s"
