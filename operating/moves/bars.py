"""Draws a move that is under way: a bar for each broker and role, with its rate, its quota and the time left.

Pure: answers of cluster and sidecars in, a rich renderable out. Invariant: an unknown value is a `-`, never
a number; a bar is full only if every replica of it is in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.text import Text

from proxy.quotas import format_bytes
from reassignment import ROLES

from ..quota_words import format_eta, format_rate_in_brief
from ..terminal import folding_table
from .verification import Progress, Stage, summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from proxy.observing.throttle_page import Page, RoleState
    from reassignment import RoleName, TopicPartition

    from .cluster_view import ClusterView

Destinations = dict["TopicPartition", frozenset[int]]
"""The brokers that each partition is copied to."""
_BAR_COLUMNS = 24
_MAX_BARS = 20


class Bar(NamedTuple):
    """The progress of a broker in one role.

    total_bytes: None while a size is not known. role: None if the broker's sidecar does not answer.
    """

    broker: int
    name: RoleName
    moved_bytes: int
    total_bytes: int | None
    role: RoleState | None

    @property
    def eta_seconds(self) -> float | None:
        """Seconds left at the rate of the last seconds; None if nothing comes, or the size is not known."""
        passing = None if self.role is None else self.role.passing_bytes_per_second
        if self.total_bytes is None or passing is None or passing.catching_up <= 0:
            return None
        return (self.total_bytes - self.moved_bytes) / passing.catching_up


def destinations(found: Iterable[Progress], view: ClusterView, before: Destinations) -> Destinations:
    """Return where partitions are copied to, those `before` included: they stay on the screen when they are done."""
    now = dict(before)
    for each in found:
        ongoing = (view.ongoing or {}).get(each.partition)
        added = set(ongoing.adding) if ongoing is not None else set(each.target) - set(each.in_sync)
        if each.stage is not Stage.DONE and added:
            now[each.partition] = now.get(each.partition, frozenset()) | added
    return now


def bars(
    found: Sequence[Progress], view: ClusterView, copied: Destinations, pages: Mapping[int, Page]
) -> tuple[Bar, ...]:
    """Return a bar for each broker that sends or fetches, by broker and role."""
    done = {each.partition for each in found if each.stage is Stage.DONE}
    moved: dict[tuple[int, RoleName], int] = {}
    total: dict[tuple[int, RoleName], int | None] = {}
    for partition, brokers in copied.items():
        state = view.partitions.get(partition)
        leader = None if state is None else state.leader
        size = None if leader is None else view.sizes.get((leader, partition))
        for broker in brokers - {leader}:
            has = view.sizes.get((broker, partition), 0)
            # A complete log may be shorter than its leader's by records written in between.
            there = has if size is None else size if partition in done else min(has, max(size - 1, 0))
            ends: list[tuple[int, RoleName]] = [(broker, "follower")]
            if leader is not None:
                ends.append((leader, "leader"))
            for end in ends:
                known = total.get(end, 0)
                moved[end] = moved.get(end, 0) + there
                total[end] = None if size is None or known is None else known + size
    order = sorted(moved, key=lambda end: (end[0], ROLES.index(end[1])))
    return tuple(Bar(*end, moved[end], total[end], _role(pages.get(end[0]), end[1])) for end in order)


def _role(page: Page | None, name: RoleName) -> RoleState | None:
    return None if page is None else page.roles.get(name)


def screen(found: Sequence[Progress], shown: Sequence[Bar], lines: Sequence[str]) -> RenderableType:
    """Draw all bars. `lines`: notes for the operator below them."""
    parts: list[RenderableType] = [Text(summary(found))]
    if shown:
        parts += [Text(), _table(shown), Text()]
    reasons = dict.fromkeys(
        f"broker {bar.broker} as {bar.name}: {bar.role.rate.reason}"
        for bar in shown
        if bar.role is not None and bar.role.rate is not None and bar.role.rate.reason
    )
    return Group(*parts, *(Text(reason) for reason in reasons), *(Text(line, style="yellow") for line in lines))


def _table(shown: Sequence[Bar]) -> RenderableType:
    table = folding_table("broker", "role", "", right=("moved", "of", "rate", "of quota", "in-sync rate", "left"))
    for bar in shown[:_MAX_BARS]:
        total, role = bar.total_bytes, bar.role
        passing = None if role is None else role.passing_bytes_per_second
        table.add_row(
            str(bar.broker),
            bar.name,
            ProgressBar(total=total or 1, completed=bar.moved_bytes if total else 0, width=_BAR_COLUMNS),
            format_bytes(bar.moved_bytes),
            "-" if total is None else format_bytes(total),
            "no answer" if role is None else format_rate_in_brief(role.rate_bytes_per_second),
            "-" if role is None else format_rate_in_brief(role.quota_bytes_per_second),
            "-" if passing is None else format_rate_in_brief(passing.in_sync),
            format_eta(bar.eta_seconds),
        )
    if len(shown) > _MAX_BARS:
        table.add_row("…", f"{len(shown) - _MAX_BARS} more")
    return table
