"""Records of a history: as values, as lines of JSON, and read back. Pure; time is an argument.

Invariants: a line that was cut or is not understood is left out and counted, and costs no other line; fields that
another version wrote are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - msgspec reads the annotations
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..diagnostics.conditions import Condition
    from ..quota_files.reload import ReloadOutcome
    from ..quotas.layer_values import Effect
    from ..quotas.override import Override

KEPT = timedelta(days=30)
MAX_CHARACTERS = 1000
"""The most characters of a text; the longest are conditions'."""


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of the history."""

    time: datetime
    event: str
    """The name of the event, as the log has it: ``override_set``."""
    by: str | None = None
    id: str | None = None
    """The override's id."""
    label: str | None = None
    reason: str | None = None
    until: datetime | None = None
    text: str | None = None
    name: str | None = None
    """The condition's name."""
    severity: str | None = None
    role: str | None = None
    since: datetime | None = None
    """The time at which a condition that is cleared was raised."""
    effects: Sequence[Any] = ()
    """The first effects on single keys (`proxy.quotas.layer_values.Effect`)."""
    more: int = 0
    """The number of effects beyond those."""


class _Timed(msgspec.Struct, frozen=True):
    time: datetime


class ReadBack(NamedTuple):
    """Lines of a history, each a JSON object, the newest last."""

    lines: list[bytes]
    left_out: int = 0
    """The number of older lines that would have been too many bytes."""
    unreadable: int = 0
    """The number of lines that were cut, or are not a record."""


_ENCODER = msgspec.json.Encoder()
_TIMED = msgspec.json.Decoder(_Timed)


def of_override(override: Override, action: str, by: str | None, effects: Sequence[Effect], now: datetime) -> Record:
    """Return the record of an override that was set or undone, or has ended."""
    return Record(
        time=now,
        event=f"override_{action}",
        by=by,
        id=override.id,
        label=override.label,
        reason=override.reason if action == "set" else None,
        until=override.until,
        effects=effects,
        more=len(override.changes) - len(effects),
    )


def of_quotas(outcome: ReloadOutcome, now: datetime) -> Record:
    """Return the record of an edited quotas.toml, or of sections in it that have ended."""
    effects = outcome.effects
    return Record(
        time=now,
        event="quotas_ended" if outcome.reason == "clock" else "quotas_changed",
        text=f"quotas.toml {effects.hash}",
        reason=outcome.reason,
        effects=effects.first,
        more=effects.number - len(effects.first),
    )


def of_condition(condition: Condition, now: datetime, *, began: bool) -> Record:
    """Return the record of a condition that begins or ends."""
    return Record(
        time=now,
        event="condition_raised" if began else "condition_cleared",
        name=condition.name,
        severity=condition.severity,
        role=condition.role,
        since=None if began else condition.since,
        text=shortened(condition.sentence),
    )


def shortened(text: str) -> str:
    """Return the text, cut to `MAX_CHARACTERS`."""
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"


def encode(records: Iterable[Record]) -> bytes:
    """Return a line for each. A lone surrogate of a path, which UTF-8 cannot write, becomes a question mark."""
    return b"".join(_encoded(each) for each in records)


def _encoded(record: Record) -> bytes:
    try:
        return _ENCODER.encode(record) + b"\n"
    except UnicodeEncodeError:
        plain: dict[str, Any] = {
            name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
            for name, value in msgspec.structs.asdict(record).items()
        }
        return _ENCODER.encode(Record(**plain)) + b"\n"


def time_of(line: bytes) -> datetime | None:
    """Return the time of a line; None if it is no record."""
    try:
        time = _TIMED.decode(line).time
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    return time if time.tzinfo is not None else None


def read_back(contents: Iterable[bytes], since: datetime, most_bytes: int) -> ReadBack:
    """Return the lines since a moment, of several files together, in the order of their times.

    A line that a disk wrote twice, since it answered too late, is there once.
    """
    found, unreadable = {}, 0
    for content in contents:
        for line in content.split(b"\n"):
            time = time_of(line) if line else None
            unreadable += time is None and bool(line)
            if time is not None and time >= since:
                found[line] = time
    lines = sorted(found, key=found.__getitem__)
    size, first = 0, len(lines)
    while first and size + len(lines[first - 1]) <= most_bytes:
        first -= 1
        size += len(lines[first])
    return ReadBack(lines[first:], first, unreadable)
