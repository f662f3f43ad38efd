"""Chooses and orders the rows of ``status``: the worst of many sidecars first; and their totals.

What is amiss is worked out here as well: the one list by which ``status`` marks rows, counts sidecars and warns.
`ask_all` asks sidecars for their /throttle and blocks; all else is pure. Invariants: a sidecar that does not answer is
a row; totals are those of the rows that are shown; a row is marked exactly if a warning says why.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from proxy.errors import ConfigurationError, UnreachableError
from proxy.logs.terminal_text import printable_answer
from proxy.observing.throttle_page import Page

from ..asking import ask
from ..fleet.members import Member, at_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.diagnostics.replica_stats import LinkStats, PartitionStats
    from proxy.observing.throttle_page import RoleState


OVER = 1.05
"""The promise for any eleven seconds, but for one batch of records on each connection."""
WINDOW_SECONDS = 11
SETTLED_SECONDS = 13
"""The least time since the quota was lowered: the window is put together of samples of a second."""
LARGEST_BATCH_BYTES = 2**20
"""The default of message.max.bytes: what a batch, which comes whole or not at all, may have beyond a small quota."""
_PAGE = msgspec.json.Decoder(Page)


class RoleRow(NamedTuple):
    page: Page
    name: str
    role: RoleState

    @property
    def share(self) -> float | None:
        """The measured rate as a part of the quota; None if the quota is 0 or unlimited."""
        return share_of(self.role)

    @property
    def unthrottled(self) -> float | None:
        """Bytes per second of what no list names or is not understood; None: an older sidecar, which does not say."""
        passing = self.role.passing_bytes_per_second
        return None if passing is None else passing.other

    @property
    def is_amiss(self) -> bool:
        """True if a warning is about it, or about its sidecar."""
        return bool([*amiss_at(self.page), *amiss_in(*self)])

    @property
    def gets_nowhere(self) -> bool:
        return self.role.lag_messages > 0 and self.role.eta_seconds is None


class Rows(NamedTuple):
    """All in the order in which they are shown."""

    silent: tuple[Sidecar, ...]
    roles: tuple[RoleRow, ...]
    links: tuple[tuple[Page, str, LinkStats], ...]
    partitions: tuple[tuple[Page, str, PartitionStats], ...]

    @property
    def pages(self) -> tuple[Page, ...]:
        """The pages of the sidecars of which a role is shown, once each, with the roles that are shown."""
        pages = {id(row.page): row.page for row in self.roles}
        shown = {(id(row.page), row.name) for row in self.roles}
        return tuple(
            replace(page, roles={name: role for name, role in page.roles.items() if (key, name) in shown})
            for key, page in pages.items()
        )


def rows(sidecars: Sequence[Sidecar]) -> Rows:
    """Return what is shown of these answers."""
    roles = [
        RoleRow(sidecar.page, name, role)
        for sidecar in sidecars
        if sidecar.page is not None
        for name, role in sidecar.page.roles.items()
        if role.served
    ]
    roles.sort(key=_worst_first)
    links = [(page, name, link) for page, name, role in roles for link in role.links]
    found = [(page, name, each) for page, name, role in roles for each in role.partitions]
    silent = (each for each in sidecars if each.page is None)
    return Rows(
        tuple(sorted(silent, key=lambda each: (each.member.broker or 0, each.member.url))),
        tuple(roles),
        tuple(sorted(links, key=lambda row: -row[2].lag_messages)),
        tuple(sorted(found, key=lambda row: -row[2].lag_messages)),
    )


def _worst_first(row: RoleRow) -> tuple[object, ...]:
    return not row.is_amiss, not row.gets_nowhere, -row.role.lag_messages, row.page.broker, row.name != "leader"


def _eta(row: RoleRow) -> float:
    return math.inf if row.gets_nowhere else row.role.eta_seconds or 0.0


def _quota(row: RoleRow) -> float:
    quota = row.role.quota_bytes_per_second
    return math.inf if quota is None else quota


class Total(NamedTuple):
    """The total of one role over the rows that are shown. Rates are bytes per second.

    Args:
        quota: None if one is unlimited, and so all together are.
        limited_rate: what those with more than 0 use of it; what passes at 0 is of replicas in sync.
        in_sync, unthrottled: of those that say so; None if none does.
        eta: the longest; None if one gets nowhere.
    """

    name: str
    sidecars: int
    quota: float | None
    rate: float
    limited_rate: float
    in_sync: float | None
    unthrottled: float | None
    lag_messages: int
    eta: float | None
    omitted: int
    connections: int
    held: int


def totals(found: Sequence[RoleRow]) -> Iterator[Total]:
    """Yield one for each role that is shown, leader first."""
    for name in sorted({row.name for row in found}, reverse=True):
        mine = [row for row in found if row.name == name]
        quota = sum(map(_quota, mine))
        passing = [state for row in mine if (state := row.role.passing_bytes_per_second) is not None]
        etas = [_eta(row) for row in mine]
        yield Total(
            name=name,
            sidecars=len(mine),
            quota=None if math.isinf(quota) else quota,
            rate=sum(row.role.rate_bytes_per_second for row in mine),
            limited_rate=sum(row.role.rate_bytes_per_second for row in mine if row.share is not None),
            in_sync=sum(state.in_sync for state in passing) if passing else None,
            unthrottled=sum(state.other for state in passing) if passing else None,
            lag_messages=sum(row.role.lag_messages for row in mine),
            eta=None if math.inf in etas else max(etas),
            omitted=sum(row.role.omitted_partitions_total + row.role.substituted_partitions_total for row in mine),
            connections=sum(row.role.connections for row in mine),
            held=sum(row.role.held_requests for row in mine),
        )


class Amiss(NamedTuple):
    """`text` may have a place, ``{count}``, for the sum of what is `counted`; `role` is None of a whole sidecar."""

    broker: int
    role: str | None
    text: str
    counted: int = 0


def share_of(role: RoleState) -> float | None:
    """Return the measured rate as a part of the quota; None if the quota is 0 or unlimited."""
    quota = role.quota_bytes_per_second
    return role.rate_bytes_per_second / quota if quota and not math.isinf(quota) else None


def amiss_at(page: Page) -> Iterator[Amiss]:
    """Yield what concerns the whole sidecar."""
    if not page.enforce:
        yield Amiss(page.broker, None, "observing only, nothing is throttled (mode.enforce is false)")
    if not page.quotas.last_reload_successful:
        text = f"quotas.toml is wrong, {page.quotas.what_holds}: {page.quotas.last_error}"
        yield Amiss(page.broker, None, text)
    if page.journal is not None and page.journal.dropped_total:
        text = "{count} journal lines dropped: the disk is full, slow or not writable"
        yield Amiss(page.broker, None, text, page.journal.dropped_total)


def amiss_in(page: Page, name: str, role: RoleState) -> Iterator[Amiss]:
    """Yield what concerns one role."""
    for reason, count in role.undecoded.items():
        yield Amiss(page.broker, name, f"{{count}} undecoded ({reason}): passed unthrottled", count)
    for warning in role.quota_warnings:
        yield Amiss(page.broker, name, warning.text)
    if role.connections_without_fetches and role.quota_bytes_per_second is not None:
        text = "{count} connections without replica fetches: passed unthrottled (clients, or undecoded)"
        yield Amiss(page.broker, name, text, role.connections_without_fetches)
    if role.rate is not None and role.rate.late and page.enforce:
        yield Amiss(page.broker, name, role.rate.reason)
    if role.quota_bytes_per_second == 0 and page.enforce:
        yield Amiss(page.broker, name, "the quota is 0: catch-up is stopped")
    if page.enforce and _breaks_its_promise(role):
        text = f"replicas behind got more than {OVER * 100:.0f} % of the quota in the last 11 seconds"
        yield Amiss(page.broker, name, text)


def _breaks_its_promise(role: RoleState) -> bool:
    """Return True if more catch-up has passed than may. Records of replicas in sync are never held back. If the quota
    was lowered within the window, as rates that set themselves are again and again, more was allowed in a part of it. A
    sidecar that has just begun has a window of less."""
    quota, passing = role.quota_bytes_per_second, role.passing_bytes_per_second
    if quota is None or passing is None or role.rate is not None:
        return False
    if role.lowered_seconds is None or role.lowered_seconds < SETTLED_SECONDS:
        return False
    replicas = max(role.connections - role.connections_without_fetches, 0)
    allowed = OVER * quota * WINDOW_SECONDS + replicas * LARGEST_BATCH_BYTES
    return passing.catching_up * WINDOW_SECONDS > allowed


class Sidecar(NamedTuple):
    """The answer of one sidecar, or the `error` in place of it."""

    member: Member
    content: bytes = b""
    page: Page | None = None
    error: str | None = None


def ask_all(members: Sequence[Member]) -> list[Sidecar]:
    """Ask all sidecars. One that does not answer costs its time-out, not the others'."""
    return at_all(members, _ask_one)


def _ask_one(asked: Member) -> Sidecar:
    try:
        content = ask(asked.url, "/throttle", headers=asked.headers)
        page = decode(asked.url, content)
    except (UnreachableError, ConfigurationError) as error:
        return Sidecar(asked, error=str(error))
    if asked.broker is not None and page.broker != asked.broker:
        return Sidecar(asked, error=f"{asked.url}: is the sidecar of broker {page.broker}, not of {asked.broker}")
    return Sidecar(asked, content, page)


def decode(url: str, content: bytes) -> Page:
    """Return the page. Raises UnreachableError for an answer that is not a sidecar's."""
    try:
        if not content.isascii() or b"\\" in content:
            content = msgspec.json.encode(printable_answer(msgspec.json.decode(content)))
        return _PAGE.decode(content)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UnreachableError(f"{url}: the answer is not a sidecar's: {error}") from error
