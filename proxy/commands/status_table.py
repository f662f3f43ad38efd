"""How ``status`` looks: a row per sidecar and role; in words what is amiss, what holds and what will change by itself;
then a row per connection, and the partitions furthest behind.

Pure: answers and the time in, a rich renderable out. Invariant: every number has its unit, beside it or at the head of
its column.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..quotas import format_bytes
from .quota_words import format_count, format_distance, format_duration, format_eta, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from .page import ChangeState, ConnectionState, Page, PartitionState, RoleState

MOST_PARTITIONS = 10
MOST_CONNECTIONS = 20
WIDE = 120
"""Columns; a narrower terminal shows what fits into 80."""
_NARROW_CELLS = 5
_OVER = 1.05
"""The promise for any eleven seconds, which is what the rate is measured over; above it something is
wrong."""


class Sidecar(NamedTuple):
    """What one sidecar answered, or the `error` that kept it from that."""

    url: str
    content: bytes = b""
    page: Page | None = None
    error: str | None = None


def layout(sidecars: Sequence[Sidecar], now: datetime, *, width: int = WIDE) -> RenderableType:
    """For a terminal of `width` columns. What matters most comes first: one that is too low cuts off the end."""
    pages = [sidecar.page for sidecar in sidecars if sidecar.page is not None]
    roles = [(page, name, role) for page in pages for name, role in page.roles.items()]
    parts: list[RenderableType] = [_roles(sidecars, wide=width >= WIDE), Text()]
    parts += [Text(sidecar.error, style="red") for sidecar in sidecars if sidecar.error is not None]
    parts += [Text(f"warning: {warning}", style="yellow") for page in pages for warning in _warnings(page)]
    parts += [Text(line) for page in pages for line in _holding(page, now)]
    links = [(page, name, link) for page, name, role in roles for link in role.links]
    if links:
        parts += [Text(), _connections(sorted(links, key=lambda row: -row[2].lag_messages))]
    partitions = [(page, name, found) for page, name, role in roles for found in role.partitions]
    if partitions:
        parts += [Text(), _partitions(sorted(partitions, key=lambda row: -row[2].lag_messages))]
    return Group(*parts)


def _table(left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in left:
        table.add_column(heading)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _roles(sidecars: Sequence[Sidecar], *, wide: bool) -> Table:
    more = ("partitions\nleft out", "connections", "fetches\nheld") if wide else ()
    table = _table(("broker", "role", "mode"), ("quota", "rate", "of\nquota", "lag in\nmessages", "ETA", *more))
    for sidecar in sidecars:
        if sidecar.page is None:
            table.add_row("?", "-", sidecar.url if wide else "-", Text("no answer", style="red"))
            continue
        for name, role in sidecar.page.roles.items():
            mode = Text("enforcing") if sidecar.page.enforce else Text("OBSERVING", style="yellow")
            cells = _role_cells(role)
            table.add_row(str(sidecar.page.broker), name, mode, *(cells if wide else cells[:_NARROW_CELLS]))
    return table


def _role_cells(role: RoleState) -> tuple[str | Text, ...]:
    """The first `_NARROW_CELLS` are for every terminal."""
    return (
        _quota(role.quota_bytes_per_second),
        _rate(role.rate_bytes_per_second),
        _share(role),
        format_count(role.lag_messages),
        format_eta(role.eta_seconds),
        format_count(role.omitted_partitions_total + role.substituted_partitions_total),
        f"{role.connections}",
        f"{role.held_requests}",
    )


def _share(role: RoleState) -> Text:
    if not role.quota_bytes_per_second:
        return Text("-")
    share = role.rate_bytes_per_second / role.quota_bytes_per_second
    return Text(f"{share:.0%}", style="red" if share > _OVER else "green")


def _connections(rows: Sequence[tuple[Page, str, ConnectionState]]) -> Table:
    table = _table(
        ("broker", "role", "peer", "Fetch"),
        ("partitions\nbehind/all", "lag in\nmessages", "rate", "ETA"),
    )
    for page, name, link in rows[:MOST_CONNECTIONS]:
        table.add_row(
            str(page.broker),
            name,
            link.peer,
            "-" if link.fetch_version is None else f"v{link.fetch_version}",
            f"{link.behind}/{link.partitions}",
            format_count(link.lag_messages),
            _rate(link.rate_bytes_per_second),
            format_eta(link.eta_seconds),
        )
    if len(rows) > MOST_CONNECTIONS:
        table.add_row("…", f"{len(rows) - MOST_CONNECTIONS} more")
    return table


def _partitions(rows: Sequence[tuple[Page, str, PartitionState]]) -> Table:
    table = _table(("broker", "role", "topic", "peer"), ("partition", "lag in\nmessages", "rate", "in sync"))
    for page, name, found in rows[:MOST_PARTITIONS]:
        table.add_row(
            str(page.broker),
            name,
            found.topic,
            found.peer or "-",
            str(found.partition),
            format_count(found.lag_messages),
            _rate(found.rate_bytes_per_second),
            "yes" if found.in_sync else "no",
        )
    return table


def _holding(page: Page, now: datetime) -> Iterator[str]:
    quotas = page.quotas
    facts = [f"policy {page.policy}", f"quotas {quotas.hash}"]
    if quotas.last_success_timestamp_seconds is not None:
        facts[-1] += f" read {format_duration(max(now.timestamp() - quotas.last_success_timestamp_seconds, 0))} ago"
    if page.journal is not None:
        facts.append(f"journal {page.journal.lines_total} lines, {page.journal.dropped_total} dropped")
    if page.version:
        facts.append(f"version {page.version}")
    yield f"broker {page.broker}: {', '.join(facts)}"
    for name, role in page.roles.items():
        if role.until is not None:
            when = f"{format_time(role.until)} ({format_distance(role.until, now)})"
            yield f"broker {page.broker}, {name}: holds until {when}"
    change = quotas.next_change
    if change is not None:
        when = f"{format_time(change.at)} ({format_distance(change.at, now)})"
        yield f"broker {page.broker}: next change {when}: {', '.join(_changes(page, change))}"


def _changes(page: Page, change: ChangeState) -> Iterator[str]:
    for name, after in change.roles.items():
        before = page.roles.get(name)
        if before is not None and before.quota_bytes_per_second != after.quota_bytes_per_second:
            yield f"{name} {_quota(before.quota_bytes_per_second)} -> {_quota(after.quota_bytes_per_second)}"
        if after.replicas_change:
            yield f"other replicas ({name})"
    if change.enforce != page.enforce:
        yield "enforcing" if change.enforce else "observing only"


def _warnings(page: Page) -> Iterator[str]:
    broker = f"broker {page.broker}"
    if not page.enforce:
        yield f"{broker}: observing only, nothing is throttled (mode.enforce is false)"
    if not page.quotas.last_reload_successful:
        yield f"{broker}: quotas.toml is wrong, the last good one holds: {page.quotas.last_error}"
    if page.journal is not None and page.journal.dropped_total:
        yield f"{broker}: {page.journal.dropped_total} journal lines dropped: the disk is full, slow or not writable"
    for name, role in page.roles.items():
        for reason, count in role.undecoded.items():
            yield f"{broker}, {name}: {count} undecoded ({reason}), not throttled"
        for doubt in role.doubts:
            yield f"{broker}, {name}: {doubt.text}"
        if role.quota_bytes_per_second == 0:
            yield f"{broker}, {name}: the quota is 0, catch-up stands still"


def _quota(bytes_per_second: float | None) -> str:
    return "unlimited" if bytes_per_second is None or math.isinf(bytes_per_second) else _rate(bytes_per_second)


def _rate(bytes_per_second: float) -> str:
    return f"{format_bytes(bytes_per_second)}/s"
