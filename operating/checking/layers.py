"""Finds the layer of each value that ``check`` shows: quotas.toml, an override of the sidecar's store, or the default.

Invariant: the layer that is shown is the one that `proxy.quotas.effective` goes by.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from proxy.quota_files.override_store import load, store_path
from proxy.quotas.origins import said
from proxy.quotas.override import active, layers_of

from ..overriding.words import layer_name
from ..quota_words import format_distance, format_time

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from proxy.quotas import QuotaFile
    from proxy.quotas.override import Override

Json = dict[str, Any]
OVERRIDE = "override "
MOST_CHANGES = 4
"""The most changes of an override that are shown."""


def with_overrides(quota_file: QuotaFile, state: Path, broker_id: int, now: datetime) -> tuple[QuotaFile, list[str]]:
    """Return the file below the overrides that the sidecar keeps beside `state`, a line for each of them that counts at
    `now`, and one that says why they cannot be read."""
    path = store_path(state, broker_id)
    if path.parent.is_dir() and not os.access(path.parent, os.X_OK):
        return quota_file, [f"overrides: {path}: cannot be read: Permission denied: they are left out here"]
    stored = load(path, broker_id)
    lines = [_override_line(each) for each in active(stored.overrides, now)]
    if stored.problem is not None:
        lines.append(f"overrides: {stored.problem}")
    return replace(quota_file, overrides=layers_of(stored.overrides, broker_id)), lines


def _override_line(override: Override) -> str:
    ends = "no end" if override.until is None else f"until {format_time(override.until)}"
    changes = ", ".join(f"{change} = {change.value}" for change in override.changes[:MOST_CHANGES])
    more = len(override.changes) - MOST_CHANGES
    return f"override {override.id} of {override.by}, {ends}: {changes}" + (f" and {more} more" if more > 0 else "")


def layer_report(quota_file: QuotaFile, broker_id: int, now: datetime, place: str, key: str) -> Json:
    """Return the layer of an effective value, when it ends, and what an override hides."""
    effective, *below = said(quota_file, broker_id, now, place, key)
    hides = below[0] if below and effective.layer.startswith(OVERRIDE) else None
    return {
        "layer": layer_name(effective.layer),
        "until": effective.until,
        "hides": None if hides is None else {"value": hides.value, "layer": layer_name(hides.layer)},
    }


def layer_words(report: Json, now: datetime) -> str:
    """Return the report for people: ``(override 7f3a12, until …; hides 50.00 MiB/s (52428800 B/s) of brokers.101)``."""
    until, hides = report["until"], report["hides"]
    ends = "" if until is None else f", until {format_time(until)}, {format_distance(until, now)}"
    hidden = "" if hides is None else f"; hides {hides['value']} of {hides['layer']}"
    return f"({report['layer']}{ends}{hidden})"
