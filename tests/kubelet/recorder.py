"""What passes a pod's network card, second by second, as the kernel counts it: nothing of the sidecar's is asked."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from lab.measuring.figures import Event, worst_window

if TYPE_CHECKING:
    from types import TracebackType

_PERIOD_SECONDS = 0.02

Direction = Literal["received", "sent"]


class Passed(NamedTuple):
    """Over the quota: what passed in a span of time."""

    mean: float
    worst_second: float
    worst_11_seconds: float
    megabytes: float
    seconds: float


class NetworkCard:
    """Counts while the block lasts. Args: pid: of a process in the pod."""

    def __init__(self, pid: int) -> None:
        self._file = Path(f"/proc/{pid}/net/dev")
        self._events: dict[Direction, list[Event]] = {"received": [], "sent": []}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> NetworkCard:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def bytes_within(self, direction: Direction, start: float, end: float) -> list[Event]:
        return [event for event in self._events[direction] if start <= event.t < end]

    def passed(self, direction: Direction, start: float, end: float, quota: float) -> Passed:
        """Of the range of `time.monotonic()`, headers of TCP and IP and all else that comes along included."""
        found = self.bytes_within(direction, start, end)
        total = sum(event.size_bytes for event in found)
        return Passed(
            mean=round(total / (end - start) / quota, 3),
            worst_second=round(worst_window(found, 1.0) / quota, 3),
            worst_11_seconds=round(worst_window(found, 11.0) / 11 / quota, 3),
            megabytes=round(total / 1e6, 1),
            seconds=round(end - start, 1),
        )

    def _counted(self) -> tuple[int, int]:
        (line,) = (line for line in self._file.read_text().splitlines() if line.strip().startswith("eth0:"))
        columns = line.partition(":")[2].split()
        return int(columns[0]), int(columns[8])

    def _run(self) -> None:
        before = self._counted()
        while not self._over.wait(_PERIOD_SECONDS):
            counted, now = self._counted(), time.monotonic()
            for direction, old, new in zip(self._events, before, counted, strict=True):
                if new > old:
                    self._events[direction].append(Event(now, new - old))
            before = counted
