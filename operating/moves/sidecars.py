"""Asks running sidecars, over HTTP, whether they still throttle what was moved.

Blocking. Knows /config and nothing else of them. Invariant: a sidecar that does not answer is an error with its URL,
never taken for a clean one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from proxy.errors import UnreachableError

from ..asking import ask
from .verification import SidecarLeftover

if TYPE_CHECKING:
    from reassignment import Assignment


def still_throttled(url: str, proposed: Assignment) -> list[SidecarLeftover]:
    """Lists in effect that name partitions of `proposed`; `*` and globs are no move's.

    Raises:
        UnreachableError: no sidecar answers there.
    """
    quotas = _config(url)["effective_quotas"]
    found = []
    for role in ("leader", "follower"):
        for topic, listed in quotas[role]["replicas"].items():
            named = {part for part in listed.split(",") if part.isdecimal()}
            mine = sorted(int(part) for part in named if (topic, int(part)) in proposed)
            if mine:
                found.append(SidecarLeftover(url, role, topic, ",".join(map(str, mine))))
    return found


def _config(url: str) -> dict[str, Any]:
    content = ask(url, "/config")
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or "effective_quotas" not in answer:
        raise UnreachableError(f"{url}: the answer to /config is not a sidecar's")
    return answer
