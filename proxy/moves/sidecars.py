"""Asks running sidecars, over HTTP, whether they still throttle what was moved.

Blocking. Knows /config and nothing else of them. Invariant: a sidecar that does not answer is an error with its URL,
never taken for a clean one.
"""

from __future__ import annotations

import http.client
import json
import urllib.request
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError
from .verification import SidecarLeftover

if TYPE_CHECKING:
    from reassignment import Assignment

_TIMEOUT_SECONDS = 3.0


def still_throttled(url: str, proposed: Assignment) -> list[SidecarLeftover]:
    """Lists in effect that name partitions of `proposed`; `*` and globs are no move's.

    Raises:
        ConfigurationError: no sidecar answers there.
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
    page = url.rstrip("/") + "/config"
    if not page.startswith(("http://", "https://")):
        raise ConfigurationError(f"{url}: expected a URL like http://127.0.0.1:9404")
    try:
        with urllib.request.urlopen(page, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310 - checked above
            answer: dict[str, Any] = json.load(response)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ConfigurationError(f"{page}: no answer from a sidecar: {getattr(error, 'reason', error)}") from error
    if "effective_quotas" not in answer:
        raise ConfigurationError(f"{page}: the answer is not a sidecar's")
    return answer
