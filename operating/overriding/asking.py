"""Parses the changes of an override from the command line: keys, values, places and times.

Pure; time is an argument.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from proxy.errors import InvalidValueError
from proxy.files.suggestions import did_you_mean
from proxy.files.toml_reading import load_toml
from proxy.quotas import RATE_KEYS, REPLICAS_KEYS, parse_span, shown
from proxy.quotas.override import BROKER, MODE, PlacedValue

from ..quota_words import parse_moment

if TYPE_CHECKING:
    from collections.abc import Iterator

ENFORCE = "mode.enforce"
KEYS = (*RATE_KEYS, *REPLICAS_KEYS, ENFORCE)
_NEXT_PAIR = re.compile(r",(?=[^,=\[\]]*=)(?![^\[]*\])(?![^{]*\})")


def changes(key: str, text: str | None, *, topic: str | None, peer: str | None, rack: str | None) -> list[PlacedValue]:
    """Return what ``KEY VALUE``, or ``KEY=VALUE[,KEY=VALUE]`` as kafka-configs takes it, asks for.

    Raises InvalidValueError. Whether a name or a value is good is for the sidecar to say.
    """
    named = [(kind, name) for kind, name in (("topics", topic), ("peers", peer), ("racks", rack)) if name is not None]
    if len(named) > 1:
        raise InvalidValueError("--topic, --peer and --rack: expected one of them: each has rates of its own")
    place = ".".join(named[0]) if named else BROKER
    return [_change(key, text, place) for key, text in _pairs(key, text)]


def _change(key: str, text: str, place: str) -> PlacedValue:
    if key not in KEYS:
        raise InvalidValueError(f"{key}: unknown key; expected one of {', '.join(KEYS)}{did_you_mean(key, KEYS)}")
    if key != ENFORCE:
        return PlacedValue(place, key, _value(key, text))
    if place != BROKER:
        raise InvalidValueError(f"{key}: holds for the whole sidecar: leave out --topic, --peer and --rack")
    if text not in ("true", "false"):
        raise InvalidValueError(f"{key}: expected true or false, found {shown(text)}")
    return PlacedValue(MODE, "enforce", text == "true")


def _value(key: str, text: str) -> str | dict[str, Any]:
    """Return a rate that sets itself as a table, anything else as text."""
    if key not in RATE_KEYS or not text.strip().startswith("{"):
        return text
    try:
        found = load_toml(f"value = {text}")["value"]
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(f"{key}: expected a rate, or an inline table of TOML: {error}") from error
    if not isinstance(found, dict):
        raise InvalidValueError(f"{key}: expected a rate, or an inline table of TOML, found {shown(text)}")
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in found.items()}


def _pairs(key: str, text: str | None) -> Iterator[tuple[str, str]]:
    if text is not None:
        yield key, text
        return
    if "=" not in key:
        raise InvalidValueError(f"{key}: expected a VALUE after it")
    for part in _NEXT_PAIR.split(key):
        name, _, value = part.partition("=")
        yield name.strip(), value.strip().removeprefix("[").removesuffix("]")


def end_of(text: str | None, now: datetime) -> datetime | None:
    """Return when ``--for 2h`` or ``--until 2026-12-01T06:00:00Z`` ends. Raises InvalidValueError."""
    if text is None:
        return None
    try:
        return now + parse_span(text)
    except InvalidValueError as error:
        try:
            moment = parse_moment(text).astimezone(UTC)
        except InvalidValueError:
            expected = "expected a time like 2h, 90m or 1d12h, or its end, like 2026-12-01T06:00:00Z"
            raise InvalidValueError(f"--for: {expected}, found {shown(text)}") from error
    if moment <= now:
        raise InvalidValueError(f"--until: expected a time to come, found {text} (it is {now:%Y-%m-%dT%H:%M:%SZ})")
    return moment
