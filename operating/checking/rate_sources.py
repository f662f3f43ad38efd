"""Reports a rate that sets itself for ``check``: above all, by when catch-up is to end.

A `within` counts from when the sidecar first read it, which the sidecar keeps where an operator may not be able to
look. Invariant: no time is told but one that the sidecar goes by; where it is not known here, that is what is said.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.config.settings import load_settings
from proxy.quota_files.quota_file import kept_starts

from ..configuration import PACKAGED
from ..quota_words import format_time, source_in_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.config.settings import Settings
    from proxy.quotas import RateSource


Json = dict[str, Any]

UNIT_STATE = Path("/var/lib/kafka-throttle-sidecar")
"""StateDirectory= of the packages' unit."""


class Moments(NamedTuple):
    """The times that `check` goes by.

    `at`: the time that is asked about; `now`: the wall clock's; both with an offset.
    """

    at: datetime
    now: datetime
    state: Path
    """Where the sidecar keeps its starts."""


def state_of(settings: Settings, overrides: Sequence[str]) -> Path:
    """Return where the sidecar of this configuration keeps its starts. The packages' unit says so to the sidecar by a
    variable that an operator's shell does not have."""
    if settings.path.absolute() != PACKAGED or "STATE_DIRECTORY" in os.environ:
        return settings.quotas.state
    environ = {**os.environ, "STATE_DIRECTORY": str(UNIT_STATE)}
    return load_settings(settings.path, overrides, environ).quotas.state


def source_report(source: RateSource, moments: Moments) -> Json:
    """Return the report of a source. `known_from`: the file that keeps the start of a `within`."""
    report = source_in_json(source) | {"finish_by": None, "counts_from": None, "known_from": None}
    if source.deadline is None:
        return report
    if source.start_key is None:
        return report | {"finish_by": source.deadline.moment(moments.at)}
    kept = kept_starts(moments.state).get(source.start_key)
    if kept is None or kept > min(moments.now, moments.at).timestamp():
        unknown = (
            "when it is to end is not known here: it counts from when the sidecar first read this; no such start can "
            f"be read in {moments.state}, and `status` asks the sidecar"
        )
        return report | {"unknown": unknown}
    since = datetime.fromtimestamp(kept, UTC)
    return report | {"finish_by": source.deadline.moment(since), "counts_from": since, "known_from": str(moments.state)}


def source_lines(source: Json) -> list[str]:
    """Return lines that say by when catch-up is to end."""
    if "unknown" in source:
        return [f"  {source['unknown']}"]
    if source["finish_by"] is None:
        return []
    known_from, counts_from = source["known_from"], source["counts_from"]
    told = f"  to end by {format_time(source['finish_by'])}"
    if counts_from is None:
        return [told]
    return [f"{told}, counted from {format_time(counts_from)} (kept in {known_from})"]
