"""Decides when a broker's traffic is led around its sidecar, and when back through it.

    THROUGH ──── no answer for `after` ───▶ AROUND
       ▲                                       │
       └──── ready, or alive for a while ──────┘

Pure: time is an argument, in seconds. Invariants: the way around is in force no later than `after` seconds after the
last answer, if the kernel takes it within `lead` seconds. One answer is enough to stay. Silence counts only while the
guard itself could hear: after it stood still for long, together with its machine, it waits for an answer anew.
"""

from __future__ import annotations

import enum

LOOK_SECONDS = 0.2
"""The time between two questions. For so long, at most, the guard waits for an answer before it looks at anything
else."""
READY_ANYWAY_SECONDS = 10.0
"""The time for which a sidecar has to answer without being ready before traffic goes through it again, since it relays
all the same. A bad quotas.toml, for example, is a reason not to be ready, but no reason to lead traffic around it."""
_MAX_COUNTED_SECONDS = 2 * LOOK_SECONDS
"""The most of the time between two looks that counts as silence of the sidecar. A busy machine makes a look late by
less than that; in any time beyond it the guard itself stood still and could hear nothing."""
_MAX_LEAD_SHARE = 0.5
"""The share of `after` that the kernel's packet filter may take. However slow it is, the other half is for the sidecar
to answer."""


class Way(enum.Enum):
    THROUGH = "through"
    AROUND = "around"


class Answer(enum.Enum):
    """The sidecar's answer to the health question."""

    NONE = "none"
    ALIVE = "alive"
    READY = "ready"


class Guard:
    """A state machine: after `after_seconds` without an answer, traffic is led around the sidecar.

    `lead_seconds`: how long it takes to put the way around in force.
    """

    def __init__(self, after_seconds: float, now: float, *, lead_seconds: float = 0.0) -> None:
        self.way = Way.THROUGH
        self._allowed_seconds = after_seconds - min(lead_seconds, _MAX_LEAD_SHARE * after_seconds)
        self._answered_at = now
        self._alive_since: float | None = None
        self._looked_at = now
        self._around_at = now + self._allowed_seconds
        """The time at which traffic will be led around, unless an answer comes before."""

    def process_answer(self, answer: Answer | None, now: float) -> bool:
        """Process the answer to a question; None: the question is still open. Return whether the way has changed."""
        self._around_at += max(now - self._looked_at - _MAX_COUNTED_SECONDS, 0.0)
        self._looked_at = max(now, self._looked_at)
        if answer is None or answer is Answer.NONE:
            if answer is Answer.NONE:
                self._alive_since = None
            return now >= self._around_at and self.way is Way.THROUGH and self._go(Way.AROUND)
        self._answered_at, self._around_at = now, now + self._allowed_seconds
        if self._alive_since is None:
            self._alive_since = now
        waited = now - self._alive_since >= READY_ANYWAY_SECONDS
        return self.way is Way.AROUND and (answer is Answer.READY or waited) and self._go(Way.THROUGH)

    def patience_seconds(self, now: float) -> float:
        """Return for how long to wait for an answer before the next `process_answer`."""
        return LOOK_SECONDS if self.way is Way.AROUND else min(max(self._around_at - now, 0.0), LOOK_SECONDS)

    def silent_seconds(self, now: float) -> float:
        return now - self._answered_at

    def _go(self, way: Way) -> bool:
        self.way = way
        return True
