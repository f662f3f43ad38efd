"""The throttle of a move, written as a quotas.toml that the sidecars take.

Pure text. Knows neither how rates were found nor who reads the file.
Invariant: every replica that the lists name has a rate on its broker in that role.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .moves import ROLES, Lists, MoveMap, RoleName, moving, throttled_replicas, written

if TYPE_CHECKING:
    from datetime import datetime

Value = int | str | dict[str, int | str]
"""The value of a key of the quotas file; a table is that of a rate that sets itself."""
Rates = Mapping[tuple[int, RoleName], int]
"""Bytes per second by broker and role."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """The rate of each broker in each role, and the lists of throttled replicas, by role, then by topic.

    `finish_by`: when the move is to be over, as quotas.toml takes it; then the rates are the most that may be.
    """

    rates: Rates
    lists: Mapping[RoleName, Lists]
    finish_by: str | None = None

    def brokers(self) -> list[int]:
        return sorted({broker for broker, _ in self.rates})

    def of_broker(self, broker: int) -> Throttle:
        """Return the part that concerns one broker."""
        return Throttle(
            {key: rate for key, rate in self.rates.items() if key[0] == broker},
            {role: _only(lists, broker) for role, lists in self.lists.items()},
            self.finish_by,
        )

    def settings(self) -> list[tuple[str, str, str, Value]]:
        """Return (table, name, key, value) in the file's order: ``("brokers", "101", …rate, "20MiB/s")``."""
        settings: list[tuple[str, str, str, Value]] = [
            ("brokers", str(broker), f"{role}.replication.throttled.rate", self._rate(self.rates[broker, role]))
            for broker in self.brokers()
            for role in ROLES
            if (broker, role) in self.rates
        ]
        topics = sorted({topic for lists in self.lists.values() for topic in lists})
        settings += [
            ("topics", topic, f"{role}.replication.throttled.replicas", written(self.lists[role][topic]))
            for topic in topics
            for role in ROLES
            if topic in self.lists[role]
        ]
        return settings

    def _rate(self, bytes_per_second: int) -> Value:
        rate = written_rate(bytes_per_second)
        return rate if self.finish_by is None else {"finish_by": self.finish_by, "max": rate}


def throttle(moves: MoveMap, rates: Rates) -> Throttle:
    """Return the throttle with these rates and the lists of the replicas that send or fetch data."""
    return Throttle(rates, throttled_replicas(moving(moves)))


def quotas_toml(found: Throttle, *, comment: str, until: datetime | str | None = None) -> str:
    """Return a whole quotas file.

    Args:
        found: at least one rate.
        comment: first lines, without their #.
        until: when every section ends by itself.
    """
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    section = None
    for table, name, key, value in found.settings():
        if (table, name) != section:
            section = (table, name)
            lines += ["", f"[{table}.{_key(name)}]"]
            if until is not None:
                lines.append(f"until = {until if isinstance(until, str) else until.isoformat()}")
        lines.append(f"{key} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Value) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {json.dumps(each)}' for key, each in value.items())} }}"
    return json.dumps(value)


def written_rate(bytes_per_second: int) -> int | str:
    """Return the rate in the largest unit in which it is a whole number; else as plain bytes per second."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("MB", 10**6)):
        if bytes_per_second and bytes_per_second % size == 0:
            return f"{bytes_per_second // size}{unit}/s"
    return bytes_per_second


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else json.dumps(name)


def _only(lists: Lists, broker: int) -> Lists:
    kept = {topic: tuple(entry for entry in entries if entry[1] == broker) for topic, entries in lists.items()}
    return {topic: entries for topic, entries in kept.items() if entries}
