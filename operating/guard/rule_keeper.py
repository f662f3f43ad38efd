"""Keeps the guard's rules in the kernel's packet filter: retries those refused, restores those gone.

Blocking. Invariant: rules that another program takes away, such as a firewall that is loaded anew, are restored after a
second, or a little later where looking alone takes long. A change other than that refused last is tried at once;
the same is tried again after at most `MAX_PAUSE_SECONDS`, and its refusal is logged when it begins, then at most
once in `TELL_SECONDS`, and once when it is over.
"""

from __future__ import annotations

import contextlib
import time
from typing import NamedTuple, Protocol

from proxy.errors import ConfigurationError

from .decision import LOOK_SECONDS
from .reporting import say
from .rules import Rules

COMPARE_SECONDS = 1.0
_MAX_COMPARING = 0.05
"""The share of the time that comparing may take: with ten thousand rules of others iptables lists them for long."""
_ADVICE = (
    "fix what the key error says; the guard tries again at least every 5 s, and until then traffic may take the way of "
    "before"
)
MAX_PAUSE_SECONDS = 5.0
"""The longest pause between two tries. The first pause is as long as one look of the guard, and each is twice as long
as the one before."""
TELL_SECONDS = 60.0
"""The least time between two log lines about the same refusal."""


class Filter(Protocol):
    """The kernel's packet filter."""

    leads_around: bool

    def put(self, rules: Rules) -> None: ...

    def intact(self) -> bool: ...


class RuleKeeper:
    """The rules of a guard, whose `broker` the log names."""

    def __init__(self, packet_filter: Filter, broker: int) -> None:
        self._filter = packet_filter
        self._broker = broker
        self._refusals = Refusals()
        self._rules: Rules | None = None
        """The rules that iptables took last."""
        self._compare_at = 0.0

    @property
    def leads_around(self) -> bool:
        return self._filter.leads_around

    @property
    def refused(self) -> bool:
        return self._refusals.last

    def hold(self, rules: Rules) -> bool:
        """Put `rules` in force; return True if they were not."""
        began = time.monotonic()
        if rules is self._rules and not self.refused:
            if began < self._compare_at:
                return False
            if self._still_there(rules):
                took = time.monotonic() - began
                self._compare_at = began + max(COMPARE_SECONDS, took / _MAX_COMPARING)
                return False
        return self._put(rules)

    def put_first(self, rules: Rules) -> None:
        """Put rules in force first. Raises ConfigurationError, after which none of them is left, if they can be taken
        away."""
        try:
            self._filter.put(rules)
        except ConfigurationError:
            with contextlib.suppress(ConfigurationError):
                self._filter.put(Rules.NOTHING)
            raise
        self._taken(rules)

    def take_away(self) -> None:
        """Remove the rules. Raises ConfigurationError, after which `refused` is true."""
        try:
            self._filter.put(Rules.NOTHING)
        except ConfigurationError:
            self._refusals.refused(Rules.NOTHING, time.monotonic())
            raise

    def _still_there(self, rules: Rules) -> bool:
        try:
            if self._filter.intact():
                return True
        except ConfigurationError:
            return False  # a guard that cannot look reports it when it adds them
        say("guard_rules_gone", broker=self._broker, way=rules.value)
        return False

    def _put(self, rules: Rules) -> bool:
        """Put rules in force; return True if they were taken. Refused ones are tried again later."""
        if not self._refusals.may_try(rules, time.monotonic()):
            return False
        told = {"broker": self._broker, "way": rules.value}
        try:
            self._filter.put(rules)
        except ConfigurationError as error:
            if self._refusals.refused(rules, time.monotonic()):
                say("guard_refused", **told, attempts=self._refusals.attempts, error=str(error), advice=_ADVICE)
            return False
        over = self._refusals.taken(time.monotonic())
        if over is not None:
            say("guard_accepted", **told, attempts=over.attempts, refused_seconds=round(over.seconds, 2))
        self._taken(rules)
        return True

    def _taken(self, rules: Rules) -> None:
        self._rules = rules
        self._compare_at = time.monotonic() + COMPARE_SECONDS


class Over(NamedTuple):
    """A refusal that is over: how many tries were refused, and how long it took."""

    attempts: int
    seconds: float


class Refusals:
    """The refusals of a guard: when a change is tried again, and when the log reports it. Pure: time is an argument.

    As long as refusals `last`, it is not certain what the kernel has: one table may have been taken and the next
    refused.
    """

    def __init__(self) -> None:
        self.attempts = 0
        self._began = 0.0
        self._rules: Rules | None = None
        self._pause = LOOK_SECONDS
        self._again_at = 0.0
        self._tell_at = 0.0

    @property
    def last(self) -> bool:
        return self.attempts > 0

    def may_try(self, rules: Rules, now: float) -> bool:
        return not self.last or rules is not self._rules or now >= self._again_at

    def refused(self, rules: Rules, now: float) -> bool:
        """Note that `rules` were refused; return whether that is to be logged now."""
        if not self.last:
            self._began = self._tell_at = now
        if not self.last or rules is not self._rules:
            self._rules, self._pause = rules, LOOK_SECONDS
        self.attempts += 1
        self._again_at = now + self._pause
        self._pause = min(2 * self._pause, MAX_PAUSE_SECONDS)
        tells = now >= self._tell_at
        if tells:
            self._tell_at = now + TELL_SECONDS
        return tells

    def taken(self, now: float) -> Over | None:
        """Note that the kernel accepted a change; return the summary of the refusal that is over now, if there was
        one."""
        over = Over(self.attempts, now - self._began) if self.last else None
        self.attempts = 0
        return over
