"""Puts the throttle of a move into a quotas file in which other things stand, and lets those be.

An `until` ends its whole section. So a value is written into a section only if nothing else there would lose its end by
it, or get one. Else what ends is written as a schedule without times, as ``set --for`` does it: the plan's values if
they end, or what stood in the section and ends. Bytes in, bytes out; time is an argument.
Invariant: what the plan does not write holds for as long as it did before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy.errors import ConfigurationError
from proxy.quotas import parse_quotas
from proxy.quotas.section_reading import SCHEDULES, UNTIL
from proxy.quotas.whole_file import parse_to_write, refuse_nothing

from ..editing.facts import Place, written
from ..editing.rewriting import Said, rewritten, with_schedule
from ..editing.sweeping import is_over, swept
from .plan_report import settings_lines

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from reassignment import Throttle

    from ..editing.facts import Path, Value

_WINDOW_KEYS = ("from", "to", "days", "timezone")


def settled(
    before: bytes, found: Throttle, now: datetime, *, until: datetime | None, source: str
) -> tuple[bytes, list[str]]:
    """The file with this throttle in it, and what to say about it. Raises ConfigurationError, led by `source`."""
    refuse_nothing(before, source=source)
    try:
        text = before.decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{source}: not TOML: {error}") from error
    said = Said(text, source=source)
    settling = _Settling(said, now, source)
    for section, values in _by_section(found).items():
        settling.write(section, values, until)
    if settling.schedules:
        # What is wrong with an `until` is told where it stands, not where it would be written.
        parse_quotas(before, source=source)
    clean, gone = swept(rewritten(text, settling.changes, source=source), now)
    lines = settings_lines([(str(place), said.at(place), value) for place, value in settling.changes.items()])
    for ends, placed in settling.schedules.items():
        clean, number = with_schedule(clean, ends, placed, source=source)
        lines += settings_lines([(str(Place((SCHEDULES, number), UNTIL)), None, ends)])
        new = [(Place((SCHEDULES, number, *place.section), place.key), value) for place, value in placed.items()]
        lines += settings_lines([(str(place), None, value) for place, value in new])
    parse_to_write(clean.encode(), source=source)
    lines += [f"{name}: removed, it was over" for name in gone]
    return clean.encode(), [f"{source}: {line}" for line in lines] or [f"{source}: says so already"]


def _by_section(found: Throttle) -> dict[Path, dict[str, Value]]:
    sections: dict[Path, dict[str, Value]] = {}
    for table, name, key, value in found.settings():
        sections.setdefault((table, name), {})[key] = value
    return sections


class _Settling:
    """What is to be changed, section by section.

    Attributes:
        changes: of what stands in the file; None removes it.
        schedules: what is to stand in a new schedule without times, by its end.
    """

    def __init__(self, said: Said, now: datetime, source: str) -> None:
        self.changes: dict[Place, Value | datetime | None] = {}
        self.schedules: dict[datetime, dict[Place, Value]] = {}
        self._now, self._source = now, source
        self._sections: dict[Path, dict[str, Any]] = {}
        for place in said.places():
            self._sections.setdefault(place.section, {})[place.key] = said.at(place)
        self._in_schedules: dict[Path, list[int]] = {}
        for section in self._sections:
            if section[0] == SCHEDULES and not self._is_over(section):
                self._in_schedules.setdefault(section[2:], []).append(int(section[1]))

    def write(self, section: Path, values: dict[str, Value], until: datetime | None) -> None:
        own = self._sections.get(section, {})
        if is_over(own.get(UNTIL), self._now):
            # The rest of a section that has ended must not come to life again.
            self._remove(section, own)
            own = {}
        ends = own.get(UNTIL)
        others = {key: value for key, value in own.items() if key not in values and key != UNTIL}
        if until is not None and own and until != ends and (others or ends is None or until < ends):
            self._write_until(section, values, until)
            return
        if until is None and ends is not None and others:
            self._keep_end(section, others, ends)
        self.changes |= {Place(section, key): value for key, value in values.items()}
        if until is not None or UNTIL in own:
            # An `until` of another day would end this throttle too.
            self.changes[Place(section, UNTIL)] = until

    def _write_until(self, section: Path, values: dict[str, Value], until: datetime) -> None:
        """In a schedule; what can never hold again beside it, as what the last plan wrote there, is taken out."""
        for key, value in values.items():
            self.schedules.setdefault(until, {})[Place(section, key)] = value
        for number in self._in_schedules.get(section, ()):
            path = (SCHEDULES, number, *section)
            if self._ends_by(path, until):
                self._remove(path, values.keys() & self._sections[path].keys())
                if self._sections[path].keys() <= {*values, UNTIL}:
                    self._remove(path, {UNTIL} & self._sections[path].keys())

    def _keep_end(self, section: Path, others: dict[str, Value], ends: datetime) -> None:
        """What ended with the section ends as it did, in a schedule, since the plan's values do not."""
        for key, value in others.items():
            for number in self._in_schedules.get(section, ()):
                if key in self._sections[SCHEDULES, number, *section]:
                    raise ConfigurationError(
                        f"{self._source}: {written(section)}: holds until {ends.isoformat()}, and what the plan writes "
                        f"there has no end; {key} could only be kept apart by a schedule, and "
                        f"{written((SCHEDULES, number, *section))} says it, too: give the plan an end (--for), or take "
                        f"{key} out of one of them first"
                    )
            self.schedules.setdefault(ends, {})[Place(section, key)] = value
        self._remove(section, others)

    def _remove(self, section: Path, keys: Iterable[str]) -> None:
        self.changes |= {Place(section, key): None for key in keys}

    def _ends_by(self, path: Path, until: datetime) -> bool:
        """Whether a schedule's section holds from now on, and until then at most."""
        schedule = self._sections[path[:2]]
        ends = [end for end in (schedule.get(UNTIL), self._sections[path].get(UNTIL)) if end is not None]
        return not any(key in schedule for key in _WINDOW_KEYS) and any(end <= until for end in ends)

    def _is_over(self, path: Path) -> bool:
        return is_over(self._sections.get(path[:2], {}).get(UNTIL), self._now)
