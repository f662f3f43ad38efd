"""Log lines: one event, in the past tense, with keys (docs/logging.md lists them).

Knows the two formats and nothing about what is logged. Payloads and frames are never logged. The process writes its
lines through `proxy.logs.queue`, so that no reader of the log holds up traffic.

Invariant: with format json every line of the stream is one JSON object with `timestamp`, `level` and `event`, and no
value and no stream make a call of the log raise.
"""

from __future__ import annotations

import io
import logging
import math
from collections import Counter
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Protocol

import msgspec
import structlog

from ..terminal_text import printable, printable_lines
from .log_settings import LogFormat, LogLevel, LogSettings
from .queue import Dropped
from .rate import LogRate

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import EventDict, Processor, WrappedLogger


MOST_CHARACTERS = 32 * 1024
"""Of one value: a traceback is the longest that is logged, what is longer is cut."""


_LINES = ("exception", "stack")
"""Keys whose lines stay lines on a console."""


class Lines(Protocol):
    """Where lines go: a text stream is one, a `LogQueue` another."""

    def write(self, line: str, /) -> object: ...
    def flush(self) -> object: ...
    def isatty(self) -> bool: ...


class Log(Protocol):
    """What the sidecar needs of a logger; structlog's bound loggers are one, a test's list of lines
    another."""

    def debug(self, event: str, **keys: object) -> object: ...
    def info(self, event: str, **keys: object) -> object: ...
    def warning(self, event: str, **keys: object) -> object: ...
    def error(self, event: str, **keys: object) -> object: ...


def open_log(
    settings: LogSettings,
    stream: Lines,
    dropped: Counter[Dropped] | None = None,
    *,
    now: Callable[[], float] = monotonic,
) -> Log:
    """A logger that writes to `stream`; colours only where it is a terminal. `dropped` counts what it leaves out."""
    dropped = Counter[Dropped]() if dropped is None else dropped
    log: Log = structlog.wrap_logger(
        _Writer(stream, dropped),
        processors=[
            _limit_rate(dropped, now),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _spell_infinity,
            _never_failing(_renderer(settings.format, stream)),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.level.upper()]),
        cache_logger_on_first_use=True,
    )
    return log


def dropped_line(settings: LogSettings, lines: int) -> str:
    """What the log says of `lines` that nobody will read."""
    told = io.StringIO()
    open_log(replace(settings, level=LogLevel.WARNING), told).warning("log_lines_dropped", lines=lines)
    return told.getvalue()


class _Writer:
    """What structlog ends at. A stream that cannot be written to costs the line, never the caller."""

    def __init__(self, stream: Lines, dropped: Counter[Dropped]) -> None:
        self._stream = stream
        self._dropped = dropped

    def msg(self, message: str) -> None:
        try:
            self._stream.write(message + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # UnicodeEncodeError is one of these
            self._dropped[Dropped.FAILED] += 1

    debug = info = warning = error = msg


def _limit_rate(dropped: Counter[Dropped], now: Callable[[], float]) -> Processor:
    rate = LogRate()

    def limit(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        suppressed = rate.admit(str(event.get("event")), event, now())
        if suppressed is None:
            dropped[Dropped.SUPPRESSED] += 1
            raise structlog.DropEvent
        return {**event, "suppressed": suppressed} if suppressed else event

    return limit


def _never_failing(render: Processor) -> Processor:
    """What cannot be put into words is put into plainer ones: a lone surrogate in a name, an integer of 100 digits."""

    def rendered(log: WrappedLogger, name: str, event: EventDict) -> str:
        event = {key: _shortened(value) for key, value in event.items()}
        try:
            return str(render(log, name, dict(event)))
        except Exception:  # noqa: BLE001 - whatever a value's own words raise, the caller only wanted to log
            return str(render(log, name, {key: _plain(value) for key, value in event.items()}))

    return rendered


def _shortened(value: object) -> object:
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        return f"{value[:MOST_CHARACTERS]}… ({len(value)} characters)"
    return value


def _plain(value: object) -> object:
    if isinstance(value, bool | float | None):
        return value
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - str() of a value runs whatever the value wants
        text = f"<{type(value).__name__}>"
    return str(_shortened(text.encode("utf-8", "backslashreplace").decode()))


def _renderer(log_format: LogFormat, stream: Lines) -> Processor:
    if log_format is LogFormat.JSON:
        return structlog.processors.JSONRenderer(serializer=_to_json)
    console = structlog.dev.ConsoleRenderer(colors=stream.isatty())
    return lambda log, name, event: console(log, name, _show_escapes(event))


def _to_json(event: EventDict, **_: object) -> str:
    leading = {key: event.pop(key, "") for key in ("timestamp", "level", "event")}
    return msgspec.json.encode({**leading, **event}, enc_hook=str).decode()


def _spell_infinity(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """JSON has no infinity; a rate without a limit reads the way quotas.toml writes it."""
    for key, value in event.items():
        if isinstance(value, float) and math.isinf(value):
            event[key] = "unlimited"
    return event


def _show_escapes(event: EventDict) -> EventDict:
    """A terminal obeys what JSON escapes: names and errors come from the wire. A traceback keeps its lines."""
    return {key: printable_lines(value) if key in _LINES else _shown(value) for key, value in event.items()}


def _shown(value: object) -> object:
    return value if isinstance(value, bool | int | float | None) else printable(str(value))
