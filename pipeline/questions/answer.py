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


class Verdict(enum.Enum):
    """value: the exit status of `ask`, beside 1 for wrong input and 2 for wrong usage."""

    GOOD = 0
    BAD = 3
    """The quota was broken, the move never ends, or a replica was starved."""
    UNKNOWN = 4
    """The journals do not say."""


@dataclass(frozen=True, slots=True)
class Answer:
    """unit: of the number. evidence: what it is told from, a sentence each, the weightiest first."""

    question: str
    verdict: Verdict
    sentence: str
    number: float | None = None
    unit: str = ""
    evidence: tuple[str, ...] = ()
    uncertainty: tuple[str, ...] = ()

    def doubted(self, *reasons: str) -> Answer:
        return replace(self, uncertainty=(*self.uncertainty, *reasons))

    def as_json(self) -> dict[str, Any]:
        """Return it for JSON, in which a number that is not finite is null."""
        number = self.number if self.number is not None and math.isfinite(self.number) else None
        return {**asdict(self), "verdict": self.verdict.name.lower(), "number": number}


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
