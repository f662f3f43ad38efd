"""A log that keeps its lines, for tests that count them."""

from __future__ import annotations

from typing import Any


class RecordedLog:
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def _record(self, level: str, event: str, keys: dict[str, object]) -> None:
        self.lines.append({"level": level, "event": event, **keys})

    def debug(self, event: str, **keys: object) -> None:
        self._record("debug", event, keys)

    def info(self, event: str, **keys: object) -> None:
        self._record("info", event, keys)

    def warning(self, event: str, **keys: object) -> None:
        self._record("warning", event, keys)

    def error(self, event: str, **keys: object) -> None:
        self._record("error", event, keys)

    @property
    def events(self) -> list[str]:
        return [line["event"] for line in self.lines]
