"""Log lines: one event, in the past tense, with keys (docs/logging.md lists them).

Knows the two formats and nothing about the events. Payloads and frames are never logged. The process writes its
lines through `proxy.logs.queue`, so that no reader of the log holds up traffic. A thousand peers that do the same cost
a bounded number of lines: a cause is an event with the values that tell its kinds apart (`CAUSE_KEYS`). The peer is
none of them, since a peer that dials from ten thousand ports is one cause.

Invariant: with format json every line of the stream is one JSON object with `timestamp`, `level` and `event`, and no
value and no stream make a call of the log raise. For each event, of which the sidecar has about a hundred, at most
`MAX_CAUSES` causes are remembered, and one more for all others. The number of suppressed lines is on the next
line of the same cause; once that cause is forgotten, on the next line of its event.
"""

from __future__ import annotations

import io
import math
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Protocol

import msgspec

from .log_settings import LogFormat, LogLevel, LogSettings
from .queue import Dropped
from .terminal_text import printable, printable_lines

if TYPE_CHECKING:
    from collections.abc import Mapping


MAX_CHARACTERS = 32 * 1024
"""The most characters of a value; a longer text is cut. The longest values that are logged are tracebacks."""


LEVELS = ("debug", "info", "warning", "error")
_LINES = ("exception", "stack")
"""Keys whose values keep their line breaks on a console."""


_Render = Callable[[dict[str, object]], str]
WINDOW_SECONDS = 10.0
MAX_LINES = 200
"""The most lines of a cause in a window. A rolling restart of a large cluster closes fewer connections (some 10 for
each other broker), and a disk or a log collector does not notice so many lines."""
MAX_CAUSES = 100
"""The most causes of an event that are remembered. Beyond them, all new causes of that event count as one, until
windows end. Other events keep causes of their own: a peer can make up a word in a line, but not an event."""
CAUSE_KEYS = ("cause", "reason", "role", "task", "signal", "status")
_OTHERS = ("others",)


class Lines(Protocol):
    """A destination of log lines: a text stream, or a `LogQueue`."""

    def write(self, line: str, /) -> object: ...
    def flush(self) -> object: ...
    def isatty(self) -> bool: ...


class Log(Protocol):
    """The part of a logger that the sidecar uses; a test's list of lines implements it as well."""

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
    """Return a logger that writes to `stream`; colours only where it is a terminal. `dropped` counts what it leaves
    out."""
    return _Logger(settings, stream, Counter[Dropped]() if dropped is None else dropped, now)


def dropped_line(settings: LogSettings, lines: int) -> str:
    """Return the log line that says that this many `lines` were dropped."""
    told = io.StringIO()
    open_log(replace(settings, level=LogLevel.WARNING), told).warning("log_lines_dropped", lines=lines)
    return told.getvalue()


class _Logger:
    """Writes lines to a stream. If the stream cannot be written to, the line is lost, and the caller notices
    nothing."""

    def __init__(
        self, settings: LogSettings, stream: Lines, dropped: Counter[Dropped], now: Callable[[], float]
    ) -> None:
        self._least = LEVELS.index(settings.level.value)
        self._rate = LogRate()
        self._render = _never_failing(_renderer(settings.format, stream))
        self._stream = stream
        self._dropped = dropped
        self._now = now

    def debug(self, event: str, **keys: object) -> None:
        self._log("debug", event, keys)

    def info(self, event: str, **keys: object) -> None:
        self._log("info", event, keys)

    def warning(self, event: str, **keys: object) -> None:
        self._log("warning", event, keys)

    def error(self, event: str, **keys: object) -> None:
        self._log("error", event, keys)

    def _log(self, level: str, event: str, keys: dict[str, object]) -> None:
        if LEVELS.index(level) < self._least:
            return
        suppressed = self._rate.admit(event, keys, self._now())
        if suppressed is None:
            self._dropped[Dropped.SUPPRESSED] += 1
            return
        line = {"timestamp": _timestamp(), "level": level, "event": event, **keys}
        if suppressed:
            line["suppressed"] = suppressed
        failure = line.pop("exc_info", None)
        if isinstance(failure, BaseException):
            line["exception"] = "".join(traceback.format_exception(failure)).rstrip("\n")
        try:
            self._stream.write(self._render(_spell_infinity(line)) + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # UnicodeEncodeError is one of these
            self._dropped[Dropped.FAILED] += 1


def _timestamp() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _never_failing(render: _Render) -> _Render:
    """Make `render` never raise: values that it cannot put into words (a lone surrogate in a name, an integer of 100
    digits) are put into plainer ones."""

    def rendered(line: dict[str, object]) -> str:
        line = {key: _shortened(value) for key, value in line.items()}
        try:
            return render(dict(line))
        except Exception:  # noqa: BLE001 - whatever a value's own words raise, the caller only wanted to log
            return render({key: _plain(value) for key, value in line.items()})

    return rendered


def _shortened(value: object) -> object:
    if isinstance(value, str) and len(value) > MAX_CHARACTERS:
        return f"{value[:MAX_CHARACTERS]}… ({len(value)} characters)"
    return value


def _plain(value: object) -> object:
    if isinstance(value, bool | float | None):
        return value
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - str() of a value runs whatever the value wants
        text = f"<{type(value).__name__}>"
    return str(_shortened(text.encode("utf-8", "backslashreplace").decode()))


def _renderer(log_format: LogFormat, stream: Lines) -> _Render:
    if log_format is LogFormat.JSON:
        return _to_json
    # Only here: with what it imports to colour tracebacks it takes as long to load as all the rest (0.5 s of CPU).
    from structlog.dev import ConsoleRenderer

    console = ConsoleRenderer(colors=stream.isatty())
    return lambda line: str(console(None, "", _show_escapes(line)))


def _to_json(line: dict[str, object]) -> str:
    return msgspec.json.encode(line, enc_hook=str).decode()


def _spell_infinity(line: dict[str, object]) -> dict[str, object]:
    """Write infinities as quotas.toml does, since JSON has none."""
    for key, value in line.items():
        if isinstance(value, float) and math.isinf(value):
            line[key] = "unlimited"
    return line


def _show_escapes(line: dict[str, object]) -> dict[str, object]:
    """Escape control characters: names and errors come from the wire. A traceback keeps its lines."""
    return {key: printable_lines(str(value)) if key in _LINES else _shown(value) for key, value in line.items()}


def _shown(value: object) -> object:
    return value if isinstance(value, bool | int | float | None) else printable(str(value))


@dataclass(slots=True)
class _Window:
    """The stretch of time in which lines of one cause are counted."""

    began: float
    lines: int = 0
    suppressed: int = 0


class _Event:
    def __init__(self) -> None:
        self.windows: dict[tuple[str, ...], _Window] = {}
        """The window of each cause."""
        self.untold = 0
        """Suppressed lines of causes that are forgotten, which no line has reported yet."""

    def window(self, cause: tuple[str, ...], now: float) -> _Window:
        found = self.windows.get(cause)
        if found is not None:
            return found
        if len(self.windows) >= MAX_CAUSES:
            self._forget_ended(now)
        return self.windows.setdefault(cause if len(self.windows) < MAX_CAUSES else _OTHERS, _Window(now))

    def take_untold(self) -> int:
        untold, self.untold = self.untold, 0
        return untold

    def _forget_ended(self, now: float) -> None:
        for cause, window in list(self.windows.items()):
            if now - window.began >= WINDOW_SECONDS:
                self.untold += window.suppressed
                self.windows.pop(cause, None)  # another thread's line may have forgotten it by now


class LogRate:
    def __init__(self, *, most_lines: int = MAX_LINES) -> None:
        self._most_lines = most_lines
        self._events: dict[str, _Event] = {}

    def admit(self, event: str, keys: Mapping[str, object], now: float) -> int | None:
        """Return None if the line is one too many for its cause. Otherwise it may be written; return how many lines of
        its cause were suppressed since the last."""
        of_event = self._events.setdefault(event, _Event())
        window = of_event.window(tuple(str(keys.get(key))[:80] for key in CAUSE_KEYS), now)
        suppressed = 0
        if now - window.began >= WINDOW_SECONDS:
            suppressed, window.suppressed = window.suppressed, 0
            window.began, window.lines = now, 0
        if window.lines >= self._most_lines:
            window.suppressed += 1
            return None
        window.lines += 1
        return suppressed + of_event.take_untold()
