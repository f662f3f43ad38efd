"""Keeps in the kernel's packet filter what the guard wants there: tries again what is refused, restores what is gone.

Blocking. Invariant: what somebody else takes away, such as a firewall that is loaded anew, is restored after a second,
or a little later where looking alone takes long.
"""

from __future__ import annotations

import contextlib
import time
from typing import Protocol

from proxy.errors import ConfigurationError

from .refusals import Refusals
from .reporting import say
from .rules import Rules

COMPARE_SECONDS = 1.0
_MOST_COMPARING = 0.05
"""The share of the time that comparing may take: with ten thousand rules of others iptables lists them for long."""
_ADVICE = (
    "mend what the key error complains of; the guard tries again at least every 5 s, and until then traffic may go as "
    "it went before"
)


class Filter(Protocol):
    """The kernel's packet filter."""

    leads_around: bool

    def put(self, rules: Rules) -> None: ...

    def intact(self) -> bool: ...


class Holding:
    """The rules of one guard, whose `broker` the log names."""

    def __init__(self, packet_filter: Filter, broker: int) -> None:
        self._filter = packet_filter
        self._broker = broker
        self._refusals = Refusals()
        self._rules: Rules | None = None
        """Those that were taken last."""
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
                self._compare_at = began + max(COMPARE_SECONDS, took / _MOST_COMPARING)
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
        """Take the rules away. Raises ConfigurationError, after which `refused` is true."""
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
            return False  # whoever cannot look is told so when it puts them there
        say("guard_rules_gone", broker=self._broker, way=rules.value)
        return False

    def _put(self, rules: Rules) -> bool:
        """Return what is refused is tried again at a later look."""
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
