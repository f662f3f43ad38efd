"""Chooses and orders the rows of ``status``: the worst of many sidecars first; and their totals.

Problems are worked out here as well: the list by which ``status`` marks rows, counts sidecars and warns.
`ask_all` asks sidecars for their /throttle and blocks; all else is pure. Invariants: a sidecar that does not answer is
a row; totals are those of the rows that are shown; a row is marked exactly if a warning says why.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from proxy.diagnostics.conditions import Severity
from proxy.errors import ConfigurationError, UnreachableError
from proxy.logs.terminal_text import printable_answer
from proxy.observing.throttle_page import Page

from ..asking import ask
from ..fleet.members import Member, at_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.diagnostics.replica_stats import LinkStats, PartitionStats
    from proxy.observing.throttle_page import RoleState


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
        """Bytes per second of traffic that no list names or is not understood; None: an older sidecar, which does not
        say."""
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
    """Return the rows for these answers."""
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
    """The total of a role over the rows that are shown. Rates are bytes per second.

    Args:
        quota: None if any is unlimited, and so all together are.
        limited_rate: what those with more than 0 use of it; what passes at 0 is of replicas in sync.
        in_sync, unthrottled: of those that say so; None if none does.
        eta: the longest; None if any gets nowhere.
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
    """Yield a total for each role that is shown, leader first."""
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
    """`text` may have a place, ``{count}``, for the sum of `counted`; `role` is None of a whole sidecar."""

    broker: int
    role: str | None
    text: str
    counted: int = 0
    is_note: bool = False


def share_of(role: RoleState) -> float | None:
    """Return the measured rate as a part of the quota; None if the quota is 0 or unlimited."""
    quota = role.quota_bytes_per_second
    return role.rate_bytes_per_second / quota if quota and not math.isinf(quota) else None


def amiss_at(page: Page) -> Iterator[Amiss]:
    """Yield the problems of the whole sidecar."""
    if page.conditions is None:
        yield Amiss(page.broker, None, "an older sidecar, which does not say what is wrong: ask its /readyz")
    yield from _conditions(page, None)


def amiss_in(page: Page, name: str, role: RoleState) -> Iterator[Amiss]:
    """Yield the problems of a role."""
    del role
    yield from _conditions(page, name)


def _conditions(page: Page, role: str | None) -> Iterator[Amiss]:
    for each in page.conditions or ():
        if each.role == role:
            is_note = each.severity == Severity.NOTE
            yield Amiss(page.broker, role, each.text if is_note else f"{each.text}: {each.do}", each.count, is_note)


def is_wrong(page: Page) -> bool:
    """Return True if something is wrong, notes apart, or may be: an older sidecar does not report its conditions."""
    return page.conditions is None or any(each.severity != Severity.NOTE for each in page.conditions)


class Sidecar(NamedTuple):
    """The answer of a sidecar, or the `error` in place of it."""

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
