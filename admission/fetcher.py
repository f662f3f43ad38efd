"""A connection as its budgets see it: where its fetch is, and what the grants that it had brought.

Pure: time is an argument. All claims of a connection share one `Fetcher`, whatever budgets they are in. Invariant: what
is believed of a connection changes when it is granted bytes, and how many at once; never what is accounted for.
"""

from __future__ import annotations

import enum
import math

GRACE_SECONDS = 0.05
"""The time for which others wait for a connection that is due any moment. Even on a busy host an answer and the
follower's next request together take less, and a default bucket that has just opened goes on filling for longer than
this before it is full (150 ms: its burst less its gate)."""
AWAY_SECONDS = 1.0
"""A connection's deficit is kept for so long after it last asked, and none rests longer than this. By then it is back
even from a fetch that waited at its leader for max_wait_ms (500 ms by default), and from a region that is 240 ms
away."""
ABSENCE_GROWTH = 1.25
"""An absence counts as longer than the ones before by this factor at most, so that one late answer says little."""
LATE_SECONDS = 0.1
"""An answer that takes longer is late. A leader that has data answers within a few milliseconds, and within this time
if it is in another region. After twice this time a grant no longer counts as part of the burst. Otherwise two leaders
that are gone, or that allow nothing themselves, would hold all of the burst."""
REST_SECONDS = 0.12
"""A little more than a default gate: after it, a sidecar or a quota at the other end may let the next grant pass. The
bucket does not fill up in that time."""
DISTRUST_SECONDS = 10.0
"""Seconds after a late or empty answer to a grant in which further grants are expected to end like it."""
MAX_GRANT_GROWTH = 4
"""The most that a grant after a late answer may be, as a multiple of what that answer brought: a connection is back at
a burst within a few fetches once its leader brings more."""


class Request(enum.Enum):
    """The place of a connection's fetch."""

    HERE = "it is being decided, or goes on without a grant"
    HELD = "it waits in the sidecar for its turn"
    AWAY = "it goes to the leader with a grant"


class Fetcher:
    """A connection's request and the record of its grants."""

    __slots__ = (
        "_brought_bytes", "_distrusted_until", "_granted_at", "_granted_bytes", "_next_rest_seconds", "_uses_grants",
        "absence_seconds", "asked_at", "due", "is_trusted", "max_bytes_beside_in_sync", "max_deficit",
        "max_grant_bytes", "priority", "request", "rests_until",
    )  # fmt: skip

    def __init__(self) -> None:
        self.request = Request.HERE
        self.due = 0.0
        """The time at which it is expected to ask again."""
        self.asked_at = -math.inf
        self.absence_seconds = 0.0
        """The shortest of the last times that it was away with a fetch, forgotten slowly: it may be back so soon."""
        self.priority = 0
        """A connection of greater priority goes before others, but for their share (`turns.FIRST_SHARE`)."""
        self.max_grant_bytes = math.inf
        """The most bytes that it is granted at once. That is little while its grants come back late and mostly unused,
        since other connections had to do without those bytes. The leader of such a connection throttles too, by the
        broker's own quota or by its own sidecar."""
        self.max_bytes_beside_in_sync = math.inf
        """The most that it is granted at once beside records of replicas in sync, which wait for it."""
        self.max_deficit = math.inf
        """The most bytes that are kept for it where it had less than others: what all its budgets let it have at
        once."""
        self.rests_until = -math.inf
        """The earliest time of its next grant."""
        self.is_trusted = True
        """True if the answers before its last grant came in time, with records: the grant counts as part of the
        burst."""
        self._next_rest_seconds = REST_SECONDS / 8
        self._distrusted_until = -math.inf
        self._granted_at = -math.inf
        self._granted_bytes = 0.0
        self._brought_bytes = 0.0
        self._uses_grants = True
        """True if at least half of the last grant but one came; the last grant may still be on its way."""

    @property
    def is_waited_for(self) -> bool:
        """True if others wait for it although it is away. They do not if it may be away for long, and for nothing."""
        return self.request is not Request.AWAY or math.isinf(self.max_grant_bytes) or self._uses_grants

    def ask(self, now: float) -> None:
        """Note that its request is here and is decided now."""
        if self.request is not Request.HELD and now > self.asked_at:
            absence, longest = now - self.asked_at, ABSENCE_GROWTH * self.absence_seconds
            if longest < GRACE_SECONDS:
                longest = GRACE_SECONDS
            self.absence_seconds = absence if absence < longest else longest
        self.request, self.asked_at, self.due = Request.HERE, now, now

    def wait(self, due: float) -> None:
        """Hold its request, to be decided again at `due`."""
        self.request, self.due = Request.HELD, due

    def rest(self, now: float) -> None:
        """Grant it nothing for a while: its grants were answered at once, with nothing."""
        self.rests_until = now + REST_SECONDS

    def rest_longer(self, now: float) -> None:
        """Grant it nothing for twice as long as the last time: its grants bring nothing again and again, while others
        want bytes. `LATE_SECONDS` does not find such a connection, because its requests go on in any case, for
        partitions in sync, and are answered in time. Without a rest, a connection to a leader at quota 0 held all of
        the burst all the time, and the other leaders sent nothing."""
        self.rests_until = now + self._next_rest_seconds
        self._next_rest_seconds = min(2 * self._next_rest_seconds, AWAY_SECONDS)

    def rest_seconds(self, now: float) -> float:
        """Return the seconds until it may be granted anything; 0 if it may be now."""
        return max(self.rests_until - now, 0.0)

    def return_seconds(self, now: float) -> float:
        """Return the seconds until it asks again at the earliest; inf if it is not waited for."""
        if not self.is_waited_for or now - self.asked_at > AWAY_SECONDS or self.rests_until > now:
            return math.inf
        return 0.0 if self.request is Request.HELD else max(self.asked_at + self.absence_seconds - now, 0.0)

    def granted(self, size: float, now: float) -> None:
        """Note that `size` bytes are granted, and that its request goes to the leader."""
        self._granted_at = now
        self.is_trusted = now >= self._distrusted_until
        self._uses_grants = self._brought_bytes >= self._granted_bytes / 2
        self._granted_bytes, self._brought_bytes = size, 0.0
        self.request = Request.AWAY

    def brought(self, used: float, now: float) -> None:
        """Record the `used` bytes that a grant, or a part of it, brought."""
        self._brought_bytes = brought = self._brought_bytes + used
        if used:
            self._next_rest_seconds = REST_SECONDS / 8
        late = now - self._granted_at > LATE_SECONDS
        if late or not brought:
            self._distrusted_until = now + DISTRUST_SECONDS
        self.max_grant_bytes = MAX_GRANT_GROWTH * max(brought, 1) if late else math.inf

    def is_overdue(self, now: float) -> bool:
        """Return whether its last grant should have been answered by now."""
        return now - self._granted_at > 2 * LATE_SECONDS
