"""Writes quotas, times and the differences between two quotas, in words with units.

Pure. Invariant: a rate always has its unit, a time its offset.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from proxy.errors import InvalidValueError
from proxy.quotas import format_rate, shown
from proxy.quotas.client_entity import USERS
from proxy.quotas.keys import OF_CLIENTS
from proxy.quotas.names import DEFAULT
from proxy.roles import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.quotas import Quotas, RateSource

_FIRST_YEAR, _LAST_YEAR = 1970, 9990
"""The years accepted: far enough ahead, and far from where a datetime overflows."""

_HOURS_TOLD = 48
"""The number of hours above which durations are written in days."""
_LONGEST_ETA_SECONDS = 99 * 86400.0
_RATE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_NEXT_UNIT = 1023.5
"""The number from which on the next unit is written: 1024 would be one of it."""
_DIGITS_TOLD = 8
"""The most digits of a count; a longer count is written in millions, or the next unit."""
_MULTIPLES = ((10**18, "E"), (10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"))


def source_in_json(source: RateSource) -> dict[str, Any]:
    """Describe the aim of a rate that sets itself, and its bounds in bytes per second."""
    return {
        "words": str(source),
        "least_bytes_per_second": source.least,
        "most_bytes_per_second": source.most,
    }


def differences(before: Quotas, after: Quotas) -> list[str]:
    """Describe the difference for traffic: ``leader 4.00 MiB/s (4194304 B/s) -> unlimited``."""
    told = []
    for role in Role:
        old, new = before.of(role), after.of(role)
        if old.bytes_per_second != new.bytes_per_second or old.source != new.source:
            told.append(f"{role.value} {old.rate_in_words()} -> {new.rate_in_words()}")
        for entity in dict(old.finer.entries()) | dict(new.finer.entries()):
            before_, after_ = old.finer.in_words(entity), new.finer.in_words(entity)
            if before_ != after_:
                told.append(f"{role.value} {entity} {before_} -> {after_}")
        if old.listed() != new.listed():
            told.append(f"{role.value} replicas {_listed(old.listed())} -> {_listed(new.listed())}")
    told += _client_differences(before, after)
    was, will_be = (format_rate(each.listener_bytes_per_second) for each in (before, after))
    if was != will_be:
        told.append(f"listener {was} -> {will_be}")
    if before.priorities != after.priorities:
        told.append(f"first {', '.join(before.priorities.entries())} -> {', '.join(after.priorities.entries())}")
    if before.enforce != after.enforce:
        told.append(f"{_mode(before)} -> {_mode(after)}")
    return told


def _client_differences(before: Quotas, after: Quotas) -> Iterator[str]:
    for key in OF_CLIENTS:
        if key.beside is not None:
            continue  # the words of the rate that it is about say it
        old, new = before.clients, after.clients
        for place in {**old.of_key(key), **new.of_key(key)}:
            was, will_be = old.words_at(key, place), new.words_at(key, place)
            if was != will_be:
                yield f"{client_words(place.label)} {key.name} {was} -> {will_be}"


def client_words(label: str) -> str:
    """Describe the entity of a client quota: ``client etl``, ``users.alice``."""
    if label == DEFAULT:
        return "each other client id"
    return label if label.startswith(f"{USERS}.") else f"client {label}"


def _listed(listed: dict[str, str]) -> str:
    return " ".join(f'{topic}="{partitions}"' for topic, partitions in listed.items()) or "none"


def _mode(quotas: Quotas) -> str:
    return "enforcing" if quotas.enforce else "observing only"


def format_time(moment: datetime) -> str:
    """Write a time: `2026-12-01 06:00:00 UTC`; unchanged if UTC has no such date, as a sidecar may answer."""
    try:
        return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return moment.isoformat(" ")


def format_duration(seconds: float | None) -> str:
    """Write a duration: `12s`, `3m05s`, `2h10m`, `3d04h`; `-` if it is unknown."""
    if seconds is None:
        return "-"
    whole = round(seconds)
    minutes, hours = whole // 60, whole // 3600
    if hours >= _HOURS_TOLD:
        return f"{hours // 24}d{hours % 24:02d}h"
    if hours:
        return f"{hours}h{minutes % 60:02d}m"
    return f"{minutes}m{whole % 60:02d}s" if minutes else f"{whole}s"


def format_eta(seconds: float | None) -> str:
    """Write an ETA: `2h10m`; `-` if it is unknown or beyond 99 days: older sidecars answer 1e52 s for what stands
    still."""
    return format_duration(seconds) if seconds is not None and 0 <= seconds <= _LONGEST_ETA_SECONDS else "-"


def format_count(count: int) -> str:
    """Write a count: `1234567`, exact up to eight digits; then `123.5M`, `9.2E`: seven characters at most, so that a
    column has room for it."""
    if count < 10**_DIGITS_TOLD:
        return str(count)
    multiple, unit = next((m, u) for m, u in _MULTIPLES if count >= m)
    return f"{count / multiple:.1f}{unit}"


def format_rate_in_brief(bytes_per_second: float | None) -> str:
    """Write a rate: `4.00 MiB/s`, `512 KiB/s`, `unlimited`: three digits that count, ten characters at most."""
    if bytes_per_second is None or math.isinf(bytes_per_second):
        return "unlimited"
    size, units = max(bytes_per_second, 0.0), iter(_RATE_UNITS)
    unit = next(units)
    while size >= _NEXT_UNIT and (larger := next(units, None)) is not None:
        size, unit = size / 1024, larger
    if unit == "B":
        return f"{size:.0f} B/s"
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{min(size, 9999):.{digits}f} {unit}/s"


def format_distance(moment: datetime, now: datetime) -> str:
    """Write a time relative to now: `in 2h10m`, `5m00s ago`."""
    ahead = (moment - now) / timedelta(seconds=1)
    return f"in {format_duration(ahead)}" if ahead >= 0 else f"{format_duration(-ahead)} ago"


def parse_moment(text: str) -> datetime:
    """Parse a date and time with an offset. Raises InvalidValueError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise InvalidValueError(
            f"expected a date and time with an offset, like 2026-12-01T06:00:00Z, found {shown(text)}"
        )
    return moment
