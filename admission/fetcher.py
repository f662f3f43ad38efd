"""A connection as its budgets see it: where its fetch is, and what the grants that it had brought.

Pure: time is an argument. All claims of a connection share one `Fetcher`, whatever budgets they are in. Invariant: what
is believed of a connection changes when it is granted bytes, and how many at once; never what is accounted for.
"""

from __future__ import annotations

import enum
import math

from .token_bucket import MIN_GATE_BYTES

AWAY_SECONDS = 3.0
"""A connection's part is kept for so long after it last asked. By then it is back even from a fetch that waited at its
leader for max_wait_ms (500 ms by default), from a region that is 240 ms away, and over a line that needs 1.4 s for a
batch: after one second, that one had 0.74 of its share."""
MAX_ABSENCES = 4
"""The number of its absences after which a connection whose answer is late counts as gone: over a slow line a grant
takes as long as it is large."""
MAX_FETCH_SECONDS = 0.5
"""A connection with a topic that has a rate is granted as much as its line brings in this time, where it was away for
half of it with its last fetch. Meanwhile the topic's budget gains more than it can keep: behind a line of 480 kB/s and
with grants of 420 kB it had 0.2 of its share of the topic. Others are granted twice that: less would only leave their
line idle more often, and more comes late, on top of what others are granted meanwhile."""
ABSENCE_GROWTH = 2.0
"""An absence counts as longer than the ones before by this factor at most, so that one late answer says little. Up to
the two seconds of a large grant over a slow line it is only a few fetches: with 1.25, the quota was not used for half a
minute, since bytes were kept for a connection that might be back at any moment."""
MIN_ABSENCE_SECONDS = 0.05
"""A shorter absence may grow to this at once: on a busy host an answer and the next request together take no longer."""
LATE_SECONDS = 0.1
"""An answer that takes longer is late. A leader that has data answers within a few milliseconds, and within this time
if it is in another region. After twice this time nothing is reserved for a grant any more. Otherwise two leaders
that are gone, or that allow nothing themselves, would hold all of the burst."""
REST_SECONDS = 0.12
"""A little more than a default gate: after it, a sidecar or a quota at the other end may let the next grant pass. The
bucket does not fill up in that time."""
MAX_GRANT_GROWTH = 4
"""The most that a grant after a late or empty answer may be, as a multiple of what the answers before brought: a
connection is back at a burst within a few fetches once its leader brings more. Beside three leaders that bring little
the fourth had 0.61 of the quota without it."""


class Request(enum.Enum):
    """The place of a connection's fetch."""

    HERE = "it is being decided, or goes on without a grant"
    HELD = "it waits in the sidecar for its turn"
    AWAY = "it goes to the leader with a grant"


class Fetcher:
    """A connection's request and the record of its grants."""

    __slots__ = (
        "_brought_bytes", "_far_seconds", "_granted_at", "_granted_bytes", "_measured", "_settled_bytes",
        "_usable_bytes", "_usual_bytes", "absence_seconds", "asked_at", "due", "expected_bytes", "is_trusted",
        "line_bytes", "max_bytes_beside_in_sync", "max_grant_bytes", "path_credit", "priority", "request",
        "rests_until",
    )  # fmt: skip

    def __init__(self) -> None:
        self.request = Request.HERE
        self.due = 0.0
        """The time at which it is expected to ask again."""
        self.asked_at = -math.inf
        self.absence_seconds = 0.0
        """The shortest of the last times that it was away with a fetch, forgotten slowly: it may be back so soon."""
        self.priority = 0
        """A connection of greater priority goes before others, but for their share (`shares.FIRST_SHARE`)."""
        self.is_trusted = True
        """True if the last answer came in time, with records: the next grant counts as part of the burst."""
        self.expected_bytes = math.inf
        """The most of a grant that is reserved. It is little where less than half of the last one came, and nothing
        where nothing came: other connections have to do without what is reserved."""
        self.max_grant_bytes = math.inf
        """The most bytes that it is granted at once beside other connections. That is little while its grants come back
        late or empty, since what came of them all at once would be on top of what others were granted. The leader of
        such a connection throttles too, by the broker's own quota or by its own sidecar."""
        self.line_bytes = math.inf
        """The most that it is granted at once where a topic has a rate, since its line needs so long for more; others
        are granted twice that."""
        self.max_bytes_beside_in_sync = math.inf
        """The most that it is granted at once beside records of replicas in sync, which wait for it."""
        self.path_credit = math.inf
        """The most that its other budgets let it have at once."""
        self.rests_until = -math.inf
        """The earliest time of its next grant."""
        self._measured = (0.0, 0.0)
        """The bytes that the last fetch brought for which it was away for long, and its seconds."""
        self._far_seconds = 0.0
        """The absence that did not become shorter with the grant; 0: it does."""
        self._granted_at = -math.inf
        self._granted_bytes = self._brought_bytes = self._settled_bytes = 0.0
        self._usable_bytes = math.inf
        """The bytes of its last grant, if that was all that it wished for, or what it wishes for since."""
        self._usual_bytes = 0.0
        """The mean of what its answers brought: the last one counts half, the one before a quarter, and so on."""

    @property
    def max_credit(self) -> float:
        """The most that it can use at once, as far as its last grant and its budgets tell."""
        return min(self._usable_bytes, self.path_credit, self.expected_bytes)

    def is_expected(self, now: float) -> bool:
        """Return whether it asked lately, and will ask again soon: its last grant is not answered much later than the
        ones before."""
        if now - self.asked_at > AWAY_SECONDS:
            return self.request is Request.HELD and now <= self.due
        return (
            self.request is not Request.AWAY
            or not self.is_overdue(now)
            or (now - self._granted_at <= MAX_ABSENCES * self.absence_seconds)
        )

    def ask(self, now: float, wished: float = 0.0) -> None:
        """Note that its request, for `wished` bytes, is here and is decided now."""
        if self.request is not Request.HELD and now > self.asked_at:
            absence, longest = now - self.asked_at, ABSENCE_GROWTH * self.absence_seconds
            if longest < MIN_ABSENCE_SECONDS:
                longest = MIN_ABSENCE_SECONDS
            self.absence_seconds = absence if absence < longest else longest
            if absence > MAX_FETCH_SECONDS / 2 and self._brought_bytes:
                self._measure_line(absence)
            else:
                self.line_bytes, self._far_seconds = math.inf, 0.0
        self.request, self.asked_at, self.due = Request.HERE, now, now
        if wished > self._usable_bytes:
            self._usable_bytes = wished

    def _measure_line(self, absence: float) -> None:
        """Bound the next grant by what came in `absence` seconds, unless it is not the bytes that take so long: after a
        smaller grant it was away for nearly as long as before, since it is far, its leader waits, or it rests."""
        brought, (before_bytes, before_seconds) = self._brought_bytes, self._measured
        self._measured = brought, absence
        if brought < before_bytes and absence > before_seconds * (1 + brought / before_bytes) / 2:
            self._far_seconds = absence
        if absence <= 2 * self._far_seconds:
            self.line_bytes = math.inf
        else:
            self._far_seconds = 0.0
            self.line_bytes = max(brought / absence * MAX_FETCH_SECONDS, MIN_GATE_BYTES)

    def wait(self, due: float) -> None:
        """Hold its request, to be decided again at `due`."""
        self.request, self.due = Request.HELD, due

    def rest(self, now: float) -> None:
        """Grant it nothing for a while: its grants were answered at once, with nothing."""
        self.rests_until = now + REST_SECONDS

    def rest_seconds(self, now: float) -> float:
        """Return the seconds until it may be granted anything; 0 if it may be now."""
        return max(self.rests_until - now, 0.0)

    def return_seconds(self, now: float) -> float:
        """Return the seconds until it asks again at the earliest, and may be granted anything."""
        if self.request is Request.HELD:
            return max(self.rests_until - now, 0.0)
        return max(self.asked_at + self.absence_seconds - now, self.rests_until - now, 0.0)

    def granted(self, size: float, now: float, *, has_all: bool = False) -> None:
        """Note that `size` bytes are granted, and that its request goes to the leader."""
        self._granted_at, self._granted_bytes = now, size
        self._brought_bytes = self._settled_bytes = 0.0
        self._usable_bytes = size if has_all else math.inf
        self.request = Request.AWAY

    def brought(self, reserved: float, used: float, now: float) -> None:
        """Record the `used` bytes that a grant, or the part of it that was `reserved`, brought."""
        self._settled_bytes += reserved
        self._brought_bytes = brought = self._brought_bytes + used
        self.is_trusted = brought > 0 and now - self._granted_at <= LATE_SECONDS
        if self._settled_bytes >= self._granted_bytes:
            self._usual_bytes = (self._usual_bytes + brought) / 2
            self.expected_bytes = math.inf if 2 * brought >= self._granted_bytes else 2 * self._usual_bytes
        if self.is_trusted:
            self.max_grant_bytes = math.inf
        else:
            self.max_grant_bytes = max(MAX_GRANT_GROWTH * max(self._usual_bytes, brought), MIN_GATE_BYTES)

    def is_overdue(self, now: float) -> bool:
        """Return whether its last grant should have been answered by now."""
        return now - self._granted_at > 2 * LATE_SECONDS
