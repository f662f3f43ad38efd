"""Answers: for people a sentence first, for scripts a verdict, a number, an exit status.

Pure. Invariant: `sentence` stands alone; all that makes it doubtful is in `uncertainty`.
"""

from __future__ import annotations

import enum
import math
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..terminal import printable

if TYPE_CHECKING:
    from pyspark.sql import Row

    from ..units import Units

STATUS = "throttle-sidecar status --fleet fleet.toml"
"""The command that says what is in force now, at every sidecar."""
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"


class Verdict(enum.Enum):
    """value: the exit status of `ask`, beside 1 for wrong input and 2 for wrong usage."""

    GOOD = 0
    BAD = 3
    """The quota was broken, the move never ends, or a replica was starved."""
    UNKNOWN = 4
    """The journals do not say."""


@dataclass(frozen=True, slots=True)
class Answer:
    """unit: of the number. evidence: what it is told from, a sentence each, the weightiest first. command: what to type
    to act on it; empty where there is nothing to do."""

    question: str
    verdict: Verdict
    sentence: str
    number: float | None = None
    unit: str = ""
    evidence: tuple[str, ...] = ()
    uncertainty: tuple[str, ...] = ()
    command: str = ""

    def doubted(self, *reasons: str) -> Answer:
        return replace(self, uncertainty=(*self.uncertainty, *reasons))

    def as_json(self) -> dict[str, Any]:
        """Return it for JSON, in which a number that is not finite is null."""
        number = self.number if self.number is not None and math.isfinite(self.number) else None
        return {**asdict(self), "verdict": self.verdict.name.lower(), "number": number}


def set_rate(broker: str, key: str, bytes_per_second: float, units: Units) -> str:
    """Return the command that sets a rate of brokers (ids with a space between) of a fleet."""
    rate = units.rate(bytes_per_second).replace(" ", "")
    at = "".join(f" --at {one}" for one in broker.split())
    return f"throttle-sidecar set {key} {rate} --fleet fleet.toml{at}"


def describe(topic: str) -> str:
    """Return Kafka's own command that says which replicas of a topic are in sync."""
    return f"kafka-topics.sh --bootstrap-server HOST:9092 --describe --topic {printable(topic, keep='')}"


def moment(seconds: float) -> str:
    """Return ``2026-11-21 03:10:12 UTC``."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def counted(number: int, one: str, many: str = "") -> str:
    """Return ``1 replica``, ``12 replicas``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def who(broker: object, role: str) -> str:
    return f"broker {broker} as {role}"


def replica(row: Row) -> str:
    """Return ``orders-0 from 101 to 102``."""
    return f"{printable(row.topic, keep='')}-{row.partition} from {row.source} to {row.destination}"
