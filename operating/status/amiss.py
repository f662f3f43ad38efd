"""Finds what is amiss at a sidecar, in words: the one list by which ``status`` marks rows, counts sidecars and warns.

Pure. Invariant: a row is marked exactly if a warning says why.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.observing.throttle_page import Page, RoleState

OVER = 1.05
"""The promise for any eleven seconds, but for one batch of records on each connection."""
WINDOW_SECONDS = 11
SETTLED_SECONDS = 13
"""How long ago the quota has to have been lowered: the window is put together of samples of a second."""
LARGEST_BATCH_BYTES = 2**20
"""message.max.bytes by default: what a batch, which comes whole or not at all, may have beyond a small quota."""


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
    if page.enforce and _breaks_its_promise(role):
        text = f"more than {OVER * 100:.0f} % of the quota has passed to replicas behind in the last 11 seconds"
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
