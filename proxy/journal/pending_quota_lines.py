"""Keeps the last quota line of each role that the journal's files do not have yet.

Pure; knows events, no files. Invariant: whatever the disk does, a role's last quota is not lost while the process
lives. If the batch that tells of it is dropped, the quota waits, and is told with the next batch, at its own time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal_schema import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .encoding import Event, EventValue


class KnownQuotas:
    """The last quota of each role that was written."""

    def __init__(self) -> None:
        self._quotas: dict[EventValue, Event] = {}

    def written(self, events: Iterable[Event]) -> None:
        self._quotas |= _last_quotas(events)

    def head(self, tick: int, events: Iterable[Event]) -> list[Event]:
        """Return the quotas that a file begins with which is opened at `tick` and whose first events are these.

        The events happened before `tick`. Where they change a role's quota, the one before it is said as of the second
        before that change: said as of `tick`, readers would take it for the later one.
        """
        changed: dict[EventValue, int] = {}
        for line in events:
            if line.kind is Kind.QUOTA:
                changed.setdefault(line.values[0], line.tick)
        ticks = {role: max(changed[role] - 1, line.tick) for role, line in self._quotas.items() if role in changed}
        return [
            line._replace(tick=ticks.get(role, tick), values=(*line.values[:-1], "file"))
            for role, line in self._quotas.items()
        ]


class PendingQuotas:
    """The last quota of each role that was in a dropped batch and in none since."""

    def __init__(self) -> None:
        self._quotas: dict[EventValue, Event] = {}

    def take_before(self, events: list[Event]) -> list[Event]:
        """Return what waits, and then `events`. Nothing waits any more."""
        waiting, self._quotas = self._quotas, {}
        return [*waiting.values(), *events]

    def keep(self, events: Iterable[Event]) -> int:
        """Keep the last quota of each role of `events`, which `take_before` returned and which were dropped.
        Return how many these are."""
        self._quotas = _last_quotas(events)
        return len(self._quotas)


def _last_quotas(events: Iterable[Event]) -> dict[EventValue, Event]:
    return {line.values[0]: line for line in events if line.kind is Kind.QUOTA}
