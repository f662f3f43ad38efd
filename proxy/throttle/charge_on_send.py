"""Policy `kip73`: records count when they begin to go on, entry by entry, at either end of a connection.

A leader records an answer before it sends it. If bytes counted only once they have gone, of several answers that come
at once each would begin within the quota. Policy `strict` has reserved its bytes before.

Pure. Invariant: what `charge_on_send` was told of counts once, whether `PendingFetch.forwards` settles it or not (the
connection ended, or the follower has stopped asking for the partition), and counts for nothing that comes later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..roles import Role

if TYPE_CHECKING:
    from collections.abc import Collection

    from protocol.fetch.walker import ResponseEntry

    from .pending_fetch import PendingFetch


def charge_on_send(pending: PendingFetch, entries: Collection[ResponseEntry], now: float) -> None:
    """Charge the records of entries that are about to go on as they are, to all budgets that bound them.

    For `RoleThrottle.charges_on_send`.
    """
    known, grants, path = pending.replicas.known, pending.grants, pending.path
    leads, enforce = pending.throttle.role is Role.LEADER, pending.throttle.enforce
    for topic, partition, error_code, _, _, entry_at, records_at, size in entries:
        key = (topic, partition)
        if size <= 0 or error_code or key not in known or key in pending.observed:
            continue
        used = size + records_at - entry_at if leads else size
        charged = used if enforce else min(used, grants.get(key, used))
        path.charge_on_send(pending.branch_of(key), charged, now)


def forget_early_charges(pending: PendingFetch) -> None:
    """End the answer: what has gone of it is settled. What is left over must not pay for the next answer."""
    pending.path.forget_early_charges()
