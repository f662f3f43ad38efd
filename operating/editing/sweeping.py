"""Takes out of quotas.toml what is over for good: schedules whose `until` has passed, and what ``set --for`` left.

A schedule that has ended stays in the file until somebody takes it out; the next who writes the file does. So does a
section of one key and an `until` that has passed, which is how ``set --for`` writes a value where there was none.
Sections of more keys are left to the people who wrote them. Text in, text out; time is an argument.
Invariant: what holds now and later is the same before and after, for every broker.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from proxy.errors import ConfigurationError
from proxy.quotas.section_reading import SCHEDULES, UNTIL

from .facts import Place, facts, schedule_count, section_facts, written
from .rewriting import rewritten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .facts import Path

_A_VALUE_AND_ITS_END = 2


class Swept(NamedTuple):
    """`gone`: what was taken out, as messages name it: ``schedules[0]``, ``brokers.101``."""

    text: str
    gone: tuple[str, ...] = ()


def swept(text: str, now: datetime) -> Swept:
    """Return the text without what is over; as it was if that cannot be taken out without changing something else.

    Raises tomllib.TOMLDecodeError.
    """
    found = facts(text.encode())
    schedules = [n for n in range(schedule_count(found)) if is_over(found.get((SCHEDULES, n, UNTIL)), now)]
    sections = [section for section, said in _sections(found).items() if _was_set_for_a_time(said, now)]
    if not schedules and not sections:
        return Swept(text)
    changes = {Place(section, key): None for section in sections for key in section_facts(found, section)}
    try:
        clean = rewritten(text, changes, gone=schedules)
    except ConfigurationError:
        # Written on one line, or the like: it counts for nothing, and people will see it.
        return Swept(text)
    return Swept(clean, tuple(map(written, [*((SCHEDULES, n) for n in schedules), *sections])))


def is_over(until: object, now: datetime) -> bool:
    return isinstance(until, datetime) and until.tzinfo is not None and until <= now


def _sections(found: Mapping[Path, object]) -> dict[Path, dict[str, object]]:
    """The file's own, in one pass: there may be thousands."""
    sections: dict[Path, dict[str, object]] = {}
    for path, value in found.items():
        if len(path) > 1 and path[0] != SCHEDULES:
            sections.setdefault(path[:-1], {})[str(path[-1])] = value
    return sections


def _was_set_for_a_time(said: dict[str, object], now: datetime) -> bool:
    return len(said) == _A_VALUE_AND_ITS_END and is_over(said.get(UNTIL), now)
