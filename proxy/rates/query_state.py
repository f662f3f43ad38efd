"""What is known of a signal that is asked for: its value, how old that is, and whether it is lost.

Pure: time is an argument. Invariant: a signal without a good value for `GRACE_SECONDS` is lost, and says why.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from .signals import Reading

if TYPE_CHECKING:
    from ..quotas.query_signals import QuerySignal

GRACE_SECONDS = 15.0
"""A signal without a good value for this long is lost: three queries have failed."""
SAME_SECONDS = 15.0
"""A value that stays the same counts as a new one after this long: Prometheus usually scrapes so often."""


class AbsurdError(Exception):
    """The answer is no value that a rate could go by."""


class _Data(msgspec.Struct):
    resultType: str = ""  # noqa: N815 - Prometheus' name
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(msgspec.Struct):
    status: str = ""
    error: str = ""
    data: _Data = msgspec.field(default_factory=_Data)


class _Sample(msgspec.Struct):
    value: tuple[float, str]


_ANSWER = msgspec.json.Decoder(_Answer)
_SCALAR = msgspec.json.Decoder(tuple[float, str])
_VECTOR = msgspec.json.Decoder(list[_Sample])


def parse_answer(content: bytes) -> float:
    """Return the value of an instant query, the largest if it has several. Raises AbsurdError."""
    try:
        answer = _ANSWER.decode(content)
        if answer.status != "success":
            raise AbsurdError(f"the query is refused: {answer.error[:200]}")
        if answer.data.resultType == "scalar":
            values = [_SCALAR.decode(answer.data.result)[1]]
        elif answer.data.resultType == "vector":
            values = [each.value[1] for each in _VECTOR.decode(answer.data.result)]
        else:
            raise AbsurdError(f"expected a scalar or an instant vector, found {answer.data.resultType[:40] or 'none'}")
        found = [float(value) for value in values]
    # RecursionError: the answer has lists in lists, a few thousand deep.
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError) as error:
        raise AbsurdError(f"expected an answer of Prometheus' API: {str(error)[:200]}") from error
    if not found:
        raise AbsurdError("the query has no value")
    absurd = next((text for text, value in zip(values, found, strict=True) if not 0 <= value < math.inf), None)
    if absurd is not None:
        raise AbsurdError(f"expected numbers of at least 0, found {absurd[:40]}")
    return max(found)


class QueryState:
    """Of one signal."""

    def __init__(self, signal: QuerySignal, now: float) -> None:
        self.signal = signal
        self.error: str | None = None
        """Why there is no value; None while there is one."""
        self._value: float | None = None
        self._seen_at = now
        self._good_at = now

    def took(self, value: float, now: float) -> None:
        if value != self._value or now - self._seen_at >= SAME_SECONDS:
            self._value, self._seen_at = value, now
        self._good_at, self.error = now, None

    def failed(self, error: str) -> None:
        self.error = error

    def is_lost(self, now: float) -> bool:
        return now - self._good_at >= GRACE_SECONDS

    def reading(self) -> Reading:
        """Return the last value as a reading. While a new value is awaited it keeps its age, so no rate is raised
        meanwhile."""
        if self._value is None:
            return Reading(self.signal.name, 0.0, -math.inf, f"{self.signal.name}, of which there is no value yet")
        words = f"{self.signal.name} of {self._value:g} (at most {self.signal.target:g})"
        return Reading(self.signal.name, self._value / self.signal.target, self._seen_at, words)

    def why_lost(self) -> str:
        return f"{self.signal.name} is lost: {self.error or 'no answer'}"
