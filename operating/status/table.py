"""Draws ``status``: totals and a row per sidecar and role, the worst first.

Pure: answers and the time in, a rich renderable out. Invariant: every number has its unit, beside it or at the head of
its column, and no cell is wider than its column may be: whatever a sidecar says, the columns stay in line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from proxy.observing.condition_checks import OVER

from ..quota_words import format_count, format_eta, format_rate_in_brief
from .rows import RoleRow, rows, totals
from .words import holding, summary, warnings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from proxy.diagnostics.replica_stats import LinkStats, PartitionStats
    from proxy.observing.throttle_page import Page

    from .rows import Sidecar, Total

MAX_PARTITIONS = 10
MAX_CONNECTIONS = 20
MIN_ROLES = 4
WIDE = 140
"""The columns of a wide terminal; a narrower one shows those that fit into 80."""
MIN_ELASTIC = 5
_BESIDE_ROLES = 10
"""Lines that a low terminal keeps beside the rows of roles."""
_NARROW_CELLS = 6


def layout(
    sidecars: Sequence[Sidecar],
    now: datetime,
    *,
    width: int = WIDE,
    height: int | None = None,
) -> RenderableType:
    """Draw the table for a terminal of `width` columns. What matters most comes first: one that is too low cuts off the
    end.

    `height`: of a terminal that is refreshed, which shows so many rows as leave room for the lines below.
    """
    found = rows(sidecars)
    answered = sum(sidecar.page is not None for sidecar in sidecars)
    parts: list[RenderableType] = []
    if answered + len(found.silent) > 1:
        amiss = len({row.page.broker for row in found.roles if row.is_amiss})
        parts += [Text(summary(answered, len(found.silent), amiss)), Text()]
    most = None if height is None else max(height // 2 - _BESIDE_ROLES // 2, MIN_ROLES)
    parts += [_roles(found.silent, found.roles, wide=width >= WIDE, most=most), Text()]
    parts += [Text(sidecar.error, style="red") for sidecar in found.silent if sidecar.error is not None]
    parts += [Text(f"warning: {warning}", style="yellow") for warning in warnings(found.roles, found.pages)]
    parts += [Text(line) for line in holding(found.pages, now)]
    if found.links:
        parts += [Text(), _connections(found.links)]
    if found.partitions:
        parts += [Text(), _partitions(found.partitions)]
    return Group(*parts)


def _table(left: Sequence[str], right: Sequence[str], *, elastic: str | None = None) -> Table:
    """Make a table. `elastic`: the column that is cut where there is not enough room for all."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in left:
        # rich makes columns narrower that may wrap before any other; the cells of this one are cut instead.
        table.add_column(heading, no_wrap=heading != elastic, min_width=min(len(heading), MIN_ELASTIC))
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _roles(silent: Sequence[Sidecar], found: Sequence[RoleRow], *, wide: bool, most: int | None) -> Table:
    left = ("broker", "role", "mode") if wide else ("broker", "role")
    beside = ("unthrottled\nrate", "lag in\nmessages", "ETA")
    more = ("in-sync\nrate", "partitions\nleft out", "connections", "fetches\nheld") if wide else ()
    table = _table(left, ("quota", "rate", "of\nquota", *beside, *more), elastic="mode")
    shown = found if most is None else found[: max(most - len(silent), MIN_ROLES)]
    if len(silent) + len(found) > 2:
        for total in totals(found):
            cells = _total_cells(total)
            named = ("total", total.name, f"{total.sidecars} of them") if wide else ("total", total.name)
            table.add_row(*named, *(cells if wide else cells[:_NARROW_CELLS]), style="bold")
    for sidecar in silent:
        asked = "?" if sidecar.member.broker is None else f"{sidecar.member.broker} !"
        table.add_row(asked, "-", *((_cut(sidecar.member.url),) if wide else ()), Text("no answer", style="red"))
    for row in shown:
        cells = _role_cells(row)
        broker = Text(f"{row.page.broker} !", style="yellow") if row.is_amiss else Text(str(row.page.broker))
        mode = Text("enforcing") if row.page.enforce else Text("OBSERVING", style="yellow")
        start = (broker, row.name, mode) if wide else (broker, row.name)
        table.add_row(*start, *(cells if wide else cells[:_NARROW_CELLS]))
    if len(shown) < len(found):
        table.add_row("…", f"{len(found) - len(shown)} more")
    return table


def _role_cells(row: RoleRow) -> tuple[str | Text, ...]:
    """Return the cells of a role's row; the first `_NARROW_CELLS` are for every terminal."""
    role, passing = row.role, row.role.passing_bytes_per_second
    return (
        format_rate_in_brief(role.quota_bytes_per_second),
        format_rate_in_brief(role.rate_bytes_per_second),
        _share(row.share),
        _rate_or_none(row.unthrottled),
        format_count(role.lag_messages),
        format_eta(role.eta_seconds),
        _rate_or_none(None if passing is None else passing.in_sync),
        format_count(role.omitted_partitions_total + role.substituted_partitions_total),
        format_count(role.connections),
        format_count(role.held_requests),
    )


def _total_cells(total: Total) -> tuple[str | Text, ...]:
    return (
        format_rate_in_brief(total.quota),
        format_rate_in_brief(total.rate),
        _share(total.limited_rate / total.quota if total.quota else None),
        _rate_or_none(total.unthrottled),
        format_count(total.lag_messages),
        format_eta(total.eta),
        _rate_or_none(total.in_sync),
        format_count(total.omitted),
        format_count(total.connections),
        format_count(total.held),
    )


def _share(share: float | None) -> Text:
    if share is None:
        return Text("-")
    return Text(f"{min(share, 99.99):.0%}", style="yellow" if share > OVER else "green")


def _rate_or_none(bytes_per_second: float | None) -> str:
    return "-" if bytes_per_second is None else format_rate_in_brief(bytes_per_second)


def _cut(text: str) -> Text:
    """Cut a text of the elastic column: on one line, whatever room there is."""
    return Text(text, no_wrap=True, overflow="ellipsis")


def _connections(found: Sequence[tuple[Page, str, LinkStats]]) -> Table:
    table = _table(
        ("broker", "role", "peer", "Fetch"),
        ("partitions\nbehind/all", "lag in\nmessages", "rate", "ETA"),
        elastic="peer",
    )
    for page, name, link in found[:MAX_CONNECTIONS]:
        table.add_row(
            str(page.broker),
            name,
            _cut(link.peer),
            "-" if link.fetch_version is None else f"v{link.fetch_version}",
            f"{format_count(link.behind)}/{format_count(link.partitions)}",
            format_count(link.lag_messages),
            format_rate_in_brief(link.rate_bytes_per_second),
            format_eta(link.eta_seconds),
        )
    if len(found) > MAX_CONNECTIONS:
        table.add_row("…", f"{len(found) - MAX_CONNECTIONS} more")
    return table


_KNOWN = ("in sync", "behind", "")
"""The states of a replica that the column answers with yes or no."""


def _partitions(found: Sequence[tuple[Page, str, PartitionStats]]) -> Table:
    table = _table(
        ("broker", "role", "topic", "peer"), ("partition", "lag in\nmessages", "rate", "in sync"), elastic="topic"
    )
    for page, name, each in found[:MAX_PARTITIONS]:
        table.add_row(
            str(page.broker),
            name,
            _cut(each.topic),
            each.peer or "-",
            str(each.partition),
            format_count(each.lag_messages),
            format_rate_in_brief(each.rate_bytes_per_second),
            each.state if each.state not in _KNOWN else "yes" if each.in_sync else "no",
        )
    return table
