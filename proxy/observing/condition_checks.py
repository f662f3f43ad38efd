"""Checks the sidecar once a second: the only place that raises and clears each condition.

Decides little: the parts describe their problems in a sentence. Invariant: a look is short, whatever there is.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import trio

from protocol.fetch.tables import NOT_AUTHORIZED

from ..cluster.kafka_throttle import KEYS
from ..diagnostics.conditions import Condition, Conditions, Found, GoingOn, Kind
from ..diagnostics.quota_diagnostics import Reason
from ..quota_files.effective_quotas import Source
from ..quotas import format_rate
from ..roles import Role
from ..statistics.counters import Undecoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from ..config.settings import Settings
    from ..control.override_keeper import OverrideKeeper
    from ..history.recorder import HistoryRecorder
    from ..journal.recorder import Journal
    from ..logs.log import Log
    from ..network.accept_limiter import AcceptLimiter
    from ..quota_files.last_good_keeper import LastGoodKeeper
    from ..quota_files.reload import QuotaWatch
    from ..rates.choice import Choice
    from ..throttle.role_throttle import OpenLink, RoleThrottle
    from ..tls.legs import Legs
    from .quota_checks import QuotaChecks

LOOK_SECONDS = 1.0
OVER = 1.05
"""The promise for any eleven seconds, but for a batch of records on each connection."""
WINDOW_SECONDS = 11
SETTLED_SECONDS = 13
"""The least time since the quota was lowered: the window is put together of samples of a second."""
MAX_NAMED = 5
LOOKED_AT = 10
"""The number of replicas of a connection that are looked at for a refusal, which concerns all of them."""
LARGEST_BATCH_BYTES = 2**20
"""The default of message.max.bytes: what a batch, which comes whole or not at all, may have beyond a small quota."""


class Parts(NamedTuple):
    """The parts of a sidecar that the checks ask."""

    settings: Settings
    watch: QuotaWatch
    throttles: Mapping[Role, RoleThrottle]
    quota_checks: QuotaChecks
    last_good: LastGoodKeeper
    overrides: OverrideKeeper
    accept_limiter: AcceptLimiter
    legs: Legs
    journal: Journal | None
    history: HistoryRecorder
    chosen: Callable[[Role], Choice | None]
    unnamed: Callable[[], int]
    """Returns the number of topic ids whose names are not known."""


class ConditionChecks:
    """Looks at all parts. `current`: the conditions of the last look."""

    def __init__(self, parts: Parts, log: Log) -> None:
        self._parts = parts
        self._conditions = Conditions(log, parts.history.condition)
        self._going_on = GoingOn()
        self._control: Path | None = parts.settings.control.directory
        self._had_control = False

    @property
    def current(self) -> tuple[Condition, ...]:
        return self._conditions.current

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look(trio.current_time())
            await trio.sleep(LOOK_SECONDS)

    def look(self, now: float) -> None:
        """Check every condition once. `now`: by the monotonic clock."""
        of_roles = (check(role, now) for role in self._parts.throttles for check in (self._of_traffic, self._of_quota))
        checks = (self._of_files(), self._of_overrides(), self._of_connections(), self._of_process(now), *of_roles)
        self._conditions.look((found for check in checks for found in check), self._parts.watch.now())

    def _of_files(self) -> Iterator[Found]:
        parts, watch = self._parts, self._parts.watch
        error = watch.statistics.last_error
        if watch.source is Source.NONE:
            text = "NOTHING IS THROTTLED: quotas.toml was wrong at the start, and no last good quotas were kept"
            yield Found(Kind.NO_QUOTAS, f"{text}: {error}")
        elif error is not None:
            is_file = watch.source is Source.FILE
            holds = "the last good one holds" if is_file else "the last good quotas of an earlier run hold"
            yield Found(Kind.QUOTAS_FILE_WRONG, f"quotas.toml is wrong, {holds}: {error}")
        if watch.never_changes:
            yield Found(Kind.QUOTAS_FILE_MOUNTED_ALONE, "quotas.toml is mounted alone, so edits never arrive")
        if parts.last_good.error is not None:
            text = f"the last good quotas cannot be kept for the next start: {parts.last_good.error}"
            yield Found(Kind.LAST_GOOD_NOT_KEPT, text)
        if not watch.current.enforce:
            yield Found(Kind.OBSERVE_ONLY, "observing only, nothing is throttled (mode.enforce is false)")

    def _of_overrides(self) -> Iterator[Found]:
        overrides = self._parts.overrides
        if (problem := overrides.not_stored or overrides.no_room) is not None:
            yield Found(Kind.OVERRIDES_NOT_STORED, f"overrides cannot be stored: {problem}")
        if overrides.damaged is not None:
            yield Found(Kind.OVERRIDES_DAMAGED, f"stored overrides could not be read: {overrides.damaged}")
        for each, text in overrides.old():
            yield Found(Kind.OVERRIDE_FORGOTTEN, text, subject=each)

    def _of_connections(self) -> Iterator[Found]:
        parts = self._parts
        if (paused := parts.accept_limiter.pause_in_words()) is not None:
            yield Found(Kind.ACCEPTING_PAUSED, paused)
        if (few := parts.accept_limiter.few_open_files()) is not None:
            yield Found(Kind.FEW_OPEN_FILES, few)
        for leg in parts.legs:
            for text in leg.warnings:
                yield Found(Kind.TLS_HANDSHAKES_FAIL, text, subject=text)
        for text in parts.legs.warnings:
            yield Found(Kind.KEYS_NOT_CURRENT, text, subject=text)

    def _of_process(self, now: float) -> Iterator[Found]:
        journal = self._parts.journal
        if journal is not None and journal.problem is not None:
            text = f"the journal is not written, lines are dropped: {journal.problem}"
            yield Found(Kind.JOURNAL_NOT_WRITTEN, text)
        elif journal is not None and self._going_on.is_growing("journal", journal.statistics.dropped, now):
            text = "{count} journal lines dropped: the disk is full, slow or not writable"
            yield Found(Kind.JOURNAL_NOT_WRITTEN, text, number=journal.statistics.dropped)
        if (problem := self._parts.history.problem) is not None:
            yield Found(Kind.HISTORY_NOT_WRITTEN, f"the history of changes is not written: {problem}")
        if self._control is not None:
            is_there = self._control.is_dir()
            self._had_control |= is_there
            if self._had_control and not is_there:
                yield Found(Kind.CONTROL_LOST, f"{self._control} is gone, and control.sock with it")

    def _of_traffic(self, role: Role, now: float) -> Iterator[Found]:
        statistics, unnamed = self._parts.throttles[role].statistics, self._parts.unnamed()
        if unnamed and role is next(iter(self._parts.throttles)):
            text = "{count} topic ids have no known name: their partitions pass unthrottled"
            yield Found(Kind.UNDECODED, text, role, unnamed, Undecoded.UNKNOWN_TOPIC_ID.value)
        for reason, count in tuple(statistics.undecoded.items()):
            is_open = reason in _OPAQUE and statistics.opaque_connections > 0
            is_growing = self._going_on.is_growing((role, reason), count, now)
            if reason != Undecoded.UNKNOWN_TOPIC_ID.value and (is_open or is_growing):
                text = f"{{count}} frames or connections passed undecoded and unthrottled ({reason})"
                yield Found(Kind.UNDECODED, text, role, count, reason)
        for reason, count in tuple(statistics.refused.items()):
            if self._going_on.is_growing((role, "refused", reason), count, now):
                yield Found(Kind.REDIRECT_REFUSED, f"{{count}} connections refused ({reason})", role, count, reason)
        refused = sorted({link.peer for link in tuple(self._parts.throttles[role].links) if _is_refused(link)})
        if refused:
            named = ", ".join(refused[:MAX_NAMED]) + (" and others" if len(refused) > MAX_NAMED else "")
            whose = "the broker refuses replica Fetches of" if role is Role.LEADER else "replica Fetches are refused by"
            text = f"{whose} {{count}} peers, as not authorized: {named}"
            yield Found(Kind.FETCHES_REFUSED, text, role, len(refused))
        for upstream, error in statistics.unreachable.at(now):
            yield Found(Kind.UPSTREAM_UNREACHABLE, f"{upstream} cannot be reached: {error}", role, subject=upstream)

    def _of_quota(self, role: Role, now: float) -> Iterator[Found]:
        throttle = self._parts.throttles[role]
        for warning in self._parts.quota_checks.quota_warnings(role):
            kind = _KINDS.get(warning.reason, Kind.QUOTA_WARNING)
            yield Found(kind, warning.text, role, subject=warning.reason.value)
        for text in self._parts.watch.without_effect[role]:
            yield Found(Kind.QUOTA_WARNING, text, role, subject=text)
        if (own := self._parts.quota_checks.lower_kafka_rate(role)) is not None:
            key, rate = KEYS[role], format_rate(throttle.quota.bytes_per_second)
            remove = f"--entity-type brokers --entity-name {self._parts.settings.broker.id} --delete-config {key}"
            text = (
                f"Kafka's own {key} of this broker is {format_rate(own)}, lower than the quota of {rate}: "
                f"kafka-configs --bootstrap-server … --alter {remove}"
            )
            yield Found(Kind.KAFKA_THROTTLE_LOWER, text, role)
        choice = self._parts.chosen(role)
        if choice is not None and choice.late and throttle.enforce:
            yield Found(Kind.DEADLINE_LATE, choice.words, role)
        if throttle.quota.bytes_per_second == 0 and throttle.enforce:
            yield Found(Kind.CATCH_UP_STOPPED, "the quota is 0: catch-up is stopped", role)
        if self._is_over_quota(role, throttle, now):
            text = f"replicas behind got more than {OVER * 100:.0f} % of the quota in the last 11 seconds"
            yield Found(Kind.OVER_QUOTA, text, role)

    def _is_over_quota(self, role: Role, throttle: RoleThrottle, now: float) -> bool:
        """Return True if more catch-up has passed than may. Records of replicas in sync are never held back. If the
        quota was lowered within the window, as rates that set themselves are again and again, more was allowed in a
        part of it."""
        quota = throttle.quota
        if not throttle.enforce or quota.source is not None or now - throttle.lowered_at < SETTLED_SECONDS:
            return False
        behind = self._parts.quota_checks.passing(role).catching_up * WINDOW_SECONDS
        allowed = OVER * quota.bytes_per_second * WINDOW_SECONDS
        return behind > allowed and behind > allowed + len(throttle.links) * LARGEST_BATCH_BYTES


def _is_refused(link: OpenLink) -> bool:
    """Return True if the broker does not authorize a peer's Fetches; the first of its replicas tell."""
    return any(each.error_code in NOT_AUTHORIZED for each in islice(link.replicas.new.values(), LOOKED_AT))


_KINDS = {
    Reason.NO_CONNECTION: Kind.BYPASSED,
    Reason.BYPASSED: Kind.BYPASSED,
    Reason.STOPPED: Kind.CATCH_UP_STOPPED,
}
_OPAQUE = {Undecoded.TLS.value, Undecoded.FRAMING.value}
