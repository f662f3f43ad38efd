"""The budgets of client quotas: how many bytes an entity has used, and for how long it is to be throttled.

Bytes are charged when they are known, and never refused: an excess becomes throttle time, of `max_throttle` at
most. The rest is forgiven, so that a debt ends soon, however it came about; a single charge that is larger
counts as a whole. Pure: time is an argument, in seconds. Invariant, by `ByDebt`: over any span of t seconds the bytes
charged are at most rate * (t + burst), plus the last charge of each connection, and what was forgiven.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from admission.simple_rate import Rate
from protocol.fetch.request import MAX_INT32

from ..config.settings import Policy

if TYPE_CHECKING:
    from ..config.settings import QuotaSettings

LARGEST_RESPONSE_SECONDS = 1.0
"""Policy `strict`: how much of its quota a response may bring a consumer, in seconds of the quota."""
MAX_RESPONSE_SECONDS = 10.0
"""The seconds of its quota that a response may bring at most: as a broker with its default window allows."""
SHARE_SECONDS = 1.0
"""Seconds between two counts of the connections that share a budget."""
MIN_LARGEST_BYTES = 2**20
"""The least `largest_response_bytes`, the default of `max.partition.fetch.bytes`: where a response is cut off, its last
batch comes in part, and once more with the next."""


class ClientBudget(Protocol):
    """The bytes that an entity may move, of one kind of traffic."""

    bytes_per_second: float
    most_seconds: float
    """The most throttle time (`max_throttle`), but for a single charge that is larger."""
    takes_turns: bool
    """True if a connection that was answered without records goes on when it is back, whatever others used meanwhile.
    Its mute was as long as the debt, so no more than one charge of each connection is unpaid at any time."""

    def change_rate(self, bytes_per_second: float, now: float) -> None:
        """Change the rate; bytes used stay used."""

    def charge(self, size: int, now: float, *, before: int = 0) -> float:
        """Return how many of the bytes count; the others are forgiven. `before`: the bytes of the same request that
        were charged before."""

    def release(self, size: float, now: float) -> None:
        """Give back bytes that were charged, but not used after all."""

    def throttle_seconds(self, now: float, *, more: int = 0) -> float:
        """Return for how long the entity is to be throttled now; 0: it is not over its quota. `more`: bytes that count
        for this question alone."""

    def begin_with_debt(self, seconds: float, now: float) -> None:
        """Begin over quota: a new budget is to be throttled for so long."""

    @property
    def largest_response_bytes(self) -> int:
        """The most that a consumer is to be sent at once."""


class ByDebt:
    """Policy `strict`: a token bucket that goes into debt, and is throttled until the debt is paid.

    Unlike `admission.token_bucket` it grants nothing and reserves nothing, and has no least size.
    """

    __slots__ = ("_burst_seconds", "_tokens", "_updated", "bytes_per_second", "most_seconds")
    takes_turns = True

    def __init__(
        self, bytes_per_second: float, *, burst_seconds: float, now: float, most_seconds: float = math.inf
    ) -> None:
        self.bytes_per_second = bytes_per_second
        self.most_seconds = most_seconds
        self._burst_seconds = burst_seconds
        self._tokens = bytes_per_second * burst_seconds
        self._updated = now

    def change_rate(self, bytes_per_second: float, now: float) -> None:
        self._refill(now)
        self.bytes_per_second = bytes_per_second
        self._tokens = max(self._tokens, -self.most_seconds * bytes_per_second)

    def charge(self, size: int, now: float, *, before: int = 0) -> float:
        self._refill(now)
        left, most_debt = self._tokens, max(self.most_seconds * self.bytes_per_second, before + size)
        self._tokens = min(left, max(left - size, -most_debt))
        return left - self._tokens

    def release(self, size: float, now: float) -> None:
        self._refill(now)
        self._tokens = min(self._tokens + size, self.bytes_per_second * self._burst_seconds)

    def throttle_seconds(self, now: float, *, more: int = 0) -> float:
        self._refill(now)
        return max((more - self._tokens) / self.bytes_per_second, 0.0)

    def begin_with_debt(self, seconds: float, now: float) -> None:
        self._tokens, self._updated = -seconds * self.bytes_per_second, now

    @property
    def largest_response_bytes(self) -> int:
        seconds = max(LARGEST_RESPONSE_SECONDS, min(MIN_LARGEST_BYTES / self.bytes_per_second, MAX_RESPONSE_SECONDS))
        return int(self.bytes_per_second * seconds)

    def _refill(self, now: float) -> None:
        gained = self.bytes_per_second * max(now - self._updated, 0.0)
        self._tokens = min(self._tokens + gained, self.bytes_per_second * self._burst_seconds)
        self._updated = max(now, self._updated)


class ByRate:
    """Policy `kip73`: the broker's arithmetic, `Rate` over 11 samples of a second (`quota.window.num`)."""

    __slots__ = ("_largest_response_seconds", "_last_size", "_rate", "bytes_per_second", "most_seconds")
    takes_turns = False

    def __init__(
        self, bytes_per_second: float, *, samples: int, sample_seconds: float, most_seconds: float = math.inf
    ) -> None:
        self.bytes_per_second = bytes_per_second
        self.most_seconds = most_seconds
        self._last_size = 0
        self._rate = Rate(samples=samples, sample_seconds=sample_seconds)
        self._largest_response_seconds = (samples - 1) * sample_seconds

    def change_rate(self, bytes_per_second: float, now: float) -> None:  # noqa: ARG002 - the same for both policies
        self.bytes_per_second = bytes_per_second

    def charge(self, size: int, now: float, *, before: int = 0) -> float:
        self._rate.record(size, now)
        self._last_size = before + size
        return size

    def release(self, size: float, now: float) -> None:
        self._rate.record(-size, now)

    def throttle_seconds(self, now: float, *, more: int = 0) -> float:
        seconds = self._rate.throttle_seconds(self.bytes_per_second, now, more=more)
        return min(seconds, max(self.most_seconds, self._last_size / self.bytes_per_second))

    def begin_with_debt(self, seconds: float, now: float) -> None:
        # The window of the first record is all samples but one; the throttle time is the excess over what fills it.
        self.charge(math.ceil((seconds + self._largest_response_seconds) * self.bytes_per_second), now)

    @property
    def largest_response_bytes(self) -> int:
        """The bytes that the quota lets through in all samples but one, as in KafkaApis."""
        return int(self.bytes_per_second * self._largest_response_seconds)


class Unbounded:
    """The budget of a client without a quota: its bytes are charged to the listener's rate alone."""

    bytes_per_second = math.inf
    most_seconds = math.inf
    takes_turns = False
    largest_response_bytes = MAX_INT32

    def change_rate(self, bytes_per_second: float, now: float) -> None:
        """Do nothing: there is no rate."""

    def charge(self, size: int, now: float, *, before: int = 0) -> float:  # noqa: ARG002 - as of every budget
        return size

    def release(self, size: float, now: float) -> None:
        """Do nothing: there is no rate."""

    def throttle_seconds(self, now: float, *, more: int = 0) -> float:  # noqa: ARG002 - as of every budget
        return 0.0

    def begin_with_debt(self, seconds: float, now: float) -> None:
        """Do nothing: there is no quota to be over."""


class Shared:
    """A budget that entities without a place of their own share, by the connection: each pays for the bytes it has used
    itself, and is throttled no longer than the budget is in debt. So nobody waits because of what others used, and
    together they keep to the rate as long as they come back."""

    __slots__ = ("_budget", "_payers", "_payers_before", "_since")

    def __init__(self, budget: ClientBudget, now: float) -> None:
        self._budget = budget
        self._payers: set[object] = set()
        """The connections that were charged since then."""
        self._payers_before = 0
        self._since = now

    def charge(self, whose: object, size: int, now: float, *, before: int = 0) -> float:
        if now - self._since >= SHARE_SECONDS:
            self._payers_before, self._payers, self._since = len(self._payers), set(), now
        self._payers.add(whose)
        return self._budget.charge(size, now, before=before)

    @property
    def connections(self) -> int:
        """The number of connections that share the rate."""
        return max(self._payers_before, len(self._payers), 1)


class SharedBudget:
    """The part of a shared budget that one connection may use: `burst` bytes, which come back at its share."""

    __slots__ = ("_all", "_budget", "_burst", "_tokens", "_updated")
    takes_turns = False

    def __init__(self, budget: ClientBudget, shared: Shared, burst: float, now: float) -> None:
        self._budget, self._all = budget, shared
        self._burst = self._tokens = burst
        self._updated = now

    @property
    def bytes_per_second(self) -> float:
        """The rate of all together."""
        return self._budget.bytes_per_second

    @bytes_per_second.setter
    def bytes_per_second(self, bytes_per_second: float) -> None:
        self._budget.bytes_per_second = bytes_per_second

    @property
    def most_seconds(self) -> float:
        return self._budget.most_seconds

    @most_seconds.setter
    def most_seconds(self, seconds: float) -> None:
        self._budget.most_seconds = seconds

    @property
    def _share(self) -> float:
        return self._budget.bytes_per_second / self._all.connections

    @property
    def largest_response_bytes(self) -> int:
        return self._budget.largest_response_bytes

    def change_rate(self, bytes_per_second: float, now: float) -> None:
        self._budget.change_rate(bytes_per_second, now)

    def charge(self, size: int, now: float, *, before: int = 0) -> float:
        self._refill(now)
        self._tokens -= size
        return self._all.charge(self, size, now, before=before)

    def release(self, size: float, now: float) -> None:
        self._tokens = min(self._tokens + size, self._burst)
        self._budget.release(size, now)

    def throttle_seconds(self, now: float, *, more: int = 0) -> float:
        self._refill(now)
        own_seconds = max((more - self._tokens) / self._share, 0.0)
        return min(self._budget.throttle_seconds(now, more=more), own_seconds)

    def begin_with_debt(self, seconds: float, now: float) -> None:
        self._budget.begin_with_debt(seconds, now)

    def _refill(self, now: float) -> None:
        self._tokens = min(self._tokens + self._share * max(now - self._updated, 0.0), self._burst)
        self._updated = max(now, self._updated)


def client_budget(
    settings: QuotaSettings, bytes_per_second: float, now: float, most_seconds: float = math.inf
) -> ClientBudget:
    """Return a new budget by the policy of proxy.toml. `most_seconds`: of throttle time, see above."""
    if settings.policy is Policy.STRICT:
        return ByDebt(bytes_per_second, burst_seconds=settings.burst_seconds, now=now, most_seconds=most_seconds)
    return ByRate(
        bytes_per_second,
        samples=settings.window_num,
        sample_seconds=settings.window_size_seconds,
        most_seconds=most_seconds,
    )
