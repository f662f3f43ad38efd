"""Asks running sidecars, over HTTP, whether they still throttle what was moved.

Blocking. Knows /config and nothing else of them. Invariant: a sidecar that does not answer is an error with its URL,
never taken for a clean one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy.errors import UnreachableError

from ..asking import ask
from .verification import SidecarLeftover

if TYPE_CHECKING:
    from reassignment import Assignment


class _Role(msgspec.Struct):
    replicas: dict[str, str]


class _Quotas(msgspec.Struct):
    leader: _Role
    follower: _Role


class _Config(msgspec.Struct):
    """What matters here of the page."""

    effective_quotas: _Quotas


_CONFIG = msgspec.json.Decoder(_Config)


def still_throttled(url: str, proposed: Assignment) -> list[SidecarLeftover]:
    """Lists in effect that name partitions of `proposed`; `*` and globs are no move's.

    Raises:
        UnreachableError: no sidecar answers there.
    """
    found = []
    for role, lists in _lists(url).items():
        for topic, listed in lists.items():
            named = {part for part in listed.split(",") if part.isdecimal()}
            mine = sorted(int(part) for part in named if (topic, int(part)) in proposed)
            if mine:
                found.append(SidecarLeftover(url, role, topic, ",".join(map(str, mine))))
    return found


def _lists(url: str) -> dict[str, dict[str, str]]:
    """The partitions of topics, by role."""
    try:
        quotas = _CONFIG.decode(ask(url, "/config")).effective_quotas
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UnreachableError(f"{url}: the answer to /config is not a sidecar's") from error
    return {"leader": quotas.leader.replicas, "follower": quotas.follower.replicas}
