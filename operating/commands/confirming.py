"""Waits until sidecars have a quotas file in force, and says which of them have it and which do not.

Each sidecar is asked over /throttle what it has in force: the file's hash, its rates, whether it enforces them. That is
compared with what the file means for the sidecar's broker. Invariant: "in force" is what the broker's own sidecar says.
A sidecar that cannot be asked is named and is no failure, since the file is right all the same. A sidecar that answers
and does not have the file in force in time is a failure.
"""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from proxy.errors import UnreachableError
from proxy.quotas import effective, format_rate, hash_of, parse_quotas
from proxy.roles import Role

from .page import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.observing.throttle_page import Page, RoleState
    from proxy.quotas import QuotaFile, RoleQuota

WAIT_SECONDS = 5.0
"""A change takes effect within 250 ms; a busy machine gets twenty times as long."""
_STEP_SECONDS = 0.1


class Confirmation(NamedTuple):
    """What one sidecar said. `in_force` and `broker` are None if it could not be asked."""

    url: str
    broker: int | None
    in_force: bool | None
    line: str

    @property
    def good(self) -> bool:
        return self.in_force is not False


def confirm(urls: Sequence[str], content: bytes) -> Iterator[Confirmation]:
    """Ask each of `urls` until it has `content`, a good quotas file, in force, or the time is over."""
    deadline = time.monotonic() + WAIT_SECONDS
    quota_file = parse_quotas(content)
    for url in urls:
        try:
            page, lacking = _wait_taken(url, quota_file, hash_of(content), deadline)
        except UnreachableError as error:
            line = f"could not ask: {error}; a sidecar that runs takes the file within 250 ms"
            yield Confirmation(url, None, None, line)
            continue
        who = f"broker {page.broker} ({url})"
        if lacking is None:
            yield Confirmation(
                url, page.broker, in_force=True, line=f"{who}: in force: {_in_force(page)}, hash {page.quotas.hash}"
            )
        else:
            yield Confirmation(
                url, page.broker, in_force=False, line=f"{who}: not in force after {WAIT_SECONDS:g} s: {lacking}"
            )


def _wait_taken(url: str, quota_file: QuotaFile, hash: str, deadline: float) -> tuple[Page, str | None]:  # noqa: A002 - what it is called everywhere
    while True:
        page = read(url)
        lacking = _lacking(page, quota_file, hash)
        if lacking is None or time.monotonic() >= deadline:
            return page, lacking
        time.sleep(_STEP_SECONDS)


def _lacking(page: Page, quota_file: QuotaFile, hash: str) -> str | None:  # noqa: A002
    if page.quotas.hash != hash:
        if page.quotas.last_error is not None:
            return f"it refuses its file: {page.quotas.last_error}"
        return f"it has hash {page.quotas.hash}; does it read this file?"
    meant = effective(quota_file, page.broker, datetime.now(UTC))
    for role in Role:
        state = page.roles.get(role.value)
        quota = meant.of(role)
        if state is not None and not _is_in_force(state, quota):
            found = format_rate(_rate(state.quota_bytes_per_second)) if state.rate is None else state.rate.source
            wanted = quota.rate_in_words()
            return f"it has the file, and {found} as {role.value} instead of {wanted}; is its clock right?"
    if page.enforce != meant.enforce:
        return "it has the file, and does not enforce as the file says; is its clock right?"
    return None


def _is_in_force(state: RoleState, quota: RoleQuota) -> bool:
    """Tell whether a role has this quota in force. Of a rate that sets itself its source is compared, not the rate that
    is chosen at the moment, which changes every second."""
    if quota.source is None:
        return state.rate is None and _rate(state.quota_bytes_per_second) == quota.bytes_per_second
    return state.rate is not None and state.rate.source == str(quota.source)


def _in_force(page: Page) -> str:
    told = [f"{name} {format_rate(_rate(role.quota_bytes_per_second))}" for name, role in page.roles.items()]
    return ", ".join([*told, *([] if page.enforce else ["observing only"])])


def _rate(bytes_per_second: float | None) -> float:
    return math.inf if bytes_per_second is None else bytes_per_second
