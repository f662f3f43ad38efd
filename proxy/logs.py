"""Log lines: one event, in the past tense, with keys (docs/logging.md lists them).

Knows the two formats and nothing about what is logged. Payloads and frames are never logged.
Invariant: with format json every line of the stream is one JSON object with `timestamp`, `level` and `event`.
"""

from __future__ import annotations

import io
import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TextIO, cast

import msgspec
import structlog

from .log_queue import LogQueue
from .settings import LogFormat, LogLevel, LogSettings
from .terminal_text import printable, printable_lines

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger


class Log(Protocol):
    """What the sidecar needs of a logger; structlog's bound loggers are one, a test's list of lines
    another."""

    def debug(self, event: str, **keys: object) -> object: ...
    def info(self, event: str, **keys: object) -> object: ...
    def warning(self, event: str, **keys: object) -> object: ...
    def error(self, event: str, **keys: object) -> object: ...


def open_log(settings: LogSettings, stream: TextIO) -> Log:
    """A logger that writes to `stream`; colours only where it is a terminal."""
    log: Log = structlog.wrap_logger(
        structlog.PrintLogger(stream),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _spell_infinity,
            *([_show_escapes] if settings.format is LogFormat.CONSOLE else []),
            _renderer(settings.format, stream),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.level.upper()]),
        cache_logger_on_first_use=True,
    )
    return log


def open_queued_log(settings: LogSettings, stream: TextIO) -> Log:
    """The same for a process that must not wait for who reads its log: a thread writes the lines (proxy.log_queue)."""

    def tell(lines: int) -> str:
        told = io.StringIO()
        open_log(replace(settings, level=LogLevel.WARNING), told).warning("log_lines_dropped", lines=lines)
        return told.getvalue().rstrip("\n")

    # It has all of a text stream that is used here.
    return open_log(settings, cast("TextIO", LogQueue(stream, tell)))


def _renderer(log_format: LogFormat, stream: TextIO) -> Processor:
    if log_format is LogFormat.JSON:
        return structlog.processors.JSONRenderer(serializer=_to_json)
    return structlog.dev.ConsoleRenderer(colors=stream.isatty())


def _to_json(event: EventDict, **_: object) -> str:
    leading = {key: event.pop(key, "") for key in ("timestamp", "level", "event")}
    return msgspec.json.encode({**leading, **event}, enc_hook=str).decode()


def _spell_infinity(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """JSON has no infinity; a rate without a limit reads the way quotas.toml writes it."""
    for key, value in event.items():
        if isinstance(value, float) and math.isinf(value):
            event[key] = "unlimited"
    return event


def _show_escapes(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """A terminal obeys what JSON escapes: names and errors come from the wire. A traceback keeps its lines."""
    return {key: printable_lines(value) if key == "exception" else _shown(value) for key, value in event.items()}


def _shown(value: object) -> object:
    return value if isinstance(value, bool | int | float | None) else printable(str(value))
