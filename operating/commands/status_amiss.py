"""What is amiss at a sidecar, in words: the one list by which ``status`` marks rows, counts sidecars and warns.

Pure. Invariant: a row is marked exactly if a warning says why.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.observing.throttle_page import Page, RoleState

OVER = 1.05
"""The promise for any eleven seconds, which is what the rate is measured over; above it something is wrong."""


class Amiss(NamedTuple):
    """`text` may have a place, ``{count}``, for the sum of what is `counted`; `role` is None of a whole sidecar."""

    broker: int
    role: str | None
    text: str
    counted: int = 0


def share_of(role: RoleState) -> float | None:
    """The measured rate as a part of the quota; None if the quota is 0 or unlimited."""
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
        yield Amiss(page.broker, name, f"{{count}} undecoded ({reason}), not throttled", count)
    for doubt in role.doubts:
        yield Amiss(page.broker, name, doubt.text)
    if role.connections_without_fetches and role.quota_bytes_per_second is not None:
        text = "{count} connections without a replica's fetch, not throttled (clients, or not understood)"
        yield Amiss(page.broker, name, text, role.connections_without_fetches)
    if role.rate is not None and role.rate.late and page.enforce:
        yield Amiss(page.broker, name, role.rate.reason)
    if role.quota_bytes_per_second == 0 and page.enforce:
        yield Amiss(page.broker, name, "the quota is 0, catch-up stands still")
    # A rate that sets itself may have been lowered within the eleven seconds over which traffic is measured. Then more
    # may have been measured than the present rate allows, and nothing is wrong.
    if role.rate is None and (share_of(role) or 0.0) > OVER:
        yield Amiss(page.broker, name, f"more than {OVER * 100:.0f} % of the quota has passed in the last 11 seconds")
