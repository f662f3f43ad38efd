"""Puts rates that set themselves in force: looks about once a second, lets a rate be chosen, and logs it with its
reason.

Once between two looks a rate may be lowered, as soon as followers were too late several times in a row.

Trio's side of this package. A choice changes the budget of a role and nothing else: lists, requests in flight and
the state of connections stay. Invariant: a role without a rate source is never touched; every line of the log is
of a change, and there are few of them (`TOLD_SECONDS`).
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

import trio

from ..changes import Changes
from ..roles import Role
from ..threads import FILE_THREADS, NoThreadError, in_thread
from .choice import HeldBy, Observed
from .role_rate import RoleRate
from .signals import Signals, read_counters, reading

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ..diagnostics.replica_stats import ReplicaStats
    from ..diagnostics.role_rates import RoleRates
    from ..logs.log import Log
    from ..quota_files.reload import QuotaWatch
    from ..quotas import RateSource
    from ..throttle.role_throttle import RoleThrottle
    from .choice import Choice
    from .signals import HostCounters, HostReading, Reading


STEP_SECONDS = 1.0
"""The time between two looks, and the longest that reading the host's counters may take; a longer reading is lost."""
STALE_SECONDS = 5.0
"""The longest wait for a new look. After it the rate is chosen from the last: there are 200 000 replicas, or the
loop is late."""
TOLD_SECONDS = 10.0
"""The least time between two log lines about a role's rate, but for lateness."""
_TOLD_CHANGE = 0.1
"""The share by which a rate has to differ from the one logged last to be logged again."""


class ReplicaStatsSource(Protocol):
    """The collector of replica statistics: `refresh` collects, `last` returns them."""

    async def refresh(self) -> None: ...

    def last(self, role: Role) -> ReplicaStats: ...


class RoleRatesSource(Protocol):
    """The task that measures each role's traffic."""

    def passing(self, role: Role) -> RoleRates: ...


@dataclass(slots=True)
class _SteeredRole:
    throttle: RoleThrottle
    rate: RoleRate = field(default_factory=RoleRate)
    signals: Signals = field(default_factory=Signals)
    used_bytes: int = 0
    """The throttled bytes until the last look."""
    carried_bytes: int = 0
    """All bytes until the last look, of connections that count."""
    looked_at: float = 0.0
    choice: Choice | None = None
    told: Choice | None = None
    told_at: float = 0.0


class RateController:
    """Changes the rates of the throttles: by quotas.toml, by the clock, and by choice."""

    def __init__(
        self,
        watch: QuotaWatch,
        throttles: Mapping[Role, RoleThrottle],
        replica_stats_task: ReplicaStatsSource,
        quota_checks: RoleRatesSource,
        changed: Callable[[Role, str], None],
        log: Log,
        *,
        served: Collection[Role] = tuple(Role),
    ) -> None:
        """Create a controller. `changed` is called for each role whose quota has changed, with the reason: ``change``
        (of the file, or by the clock), ``rate`` (another rate was chosen) or ``pressed`` (the same, before a second was
        over). `served`: the roles that have traffic; for another no rate is chosen."""
        self._watch = watch
        self._applied = dict.fromkeys(Role, watch.current)
        self._looked_at = -math.inf
        self._roles = {role: _SteeredRole(throttle) for role, throttle in throttles.items()}
        self._served = served
        self._pressed: set[Role] = set()
        """The roles whose in-sync followers were too late since the last look."""
        self._woken = Changes()
        """An event: quotas were put in force, or a role is pressed."""
        for role, throttle in throttles.items():
            throttle.timings.on_standing_queue = partial(self._press, role)
        self._replica_stats_task = replica_stats_task
        self._quota_checks = quota_checks
        self._changed = changed
        self._log = log
        self._host = HostWatch()

    def choice(self, role: Role) -> Choice | None:
        """Return the last choice; None while the quotas give the rate themselves."""
        return self._roles[role].choice if role in self._roles else None

    async def apply_changes(self, role: Role) -> None:
        """Put each new snapshot of the quotas in force for this role. The roles have a task each: an error in one
        leaves the other with the new quotas, and what was not put in force is tried again."""
        while True:
            quotas = await self._watch.wait_changed(self._applied[role])
            now = trio.current_time()
            self._roles[role].throttle.apply(quotas, now)
            self._applied[role] = quotas
            self._choose(role, now, fresh=now - self._looked_at <= STALE_SECONDS)
            self._woken.notify()
            self._changed(role, "change")

    @property
    def holds_current(self) -> bool:
        """True if both roles hold to the quotas that are current."""
        return all(applied is self._watch.current for applied in self._applied.values())

    async def run(self) -> None:
        """Choose rates until cancelled."""
        while True:
            steers = any(source is not None for source in self._sources())
            fresh = True
            if steers:
                with trio.move_on_after(STALE_SECONDS) as looking:
                    await self._replica_stats_task.refresh()
                    self._looked_at = trio.current_time()
                fresh = not looking.cancelled_caught
            if any(source is not None and source.auto for source in self._sources()):
                await self._host.look()
            self.step(trio.current_time(), fresh=fresh)
            self._pressed.clear()
            with trio.move_on_after(STEP_SECONDS if steers else math.inf) as waited:
                await self._woken.wait()
            if not waited.cancelled_caught:
                # Within a second, the rate that was chosen with the change, or when a role was pressed, is the last
                # one: the journal tells no finer time.
                for role in self._pressed:
                    self._lower(role, trio.current_time())
                await trio.sleep(STEP_SECONDS)

    def _press(self, role: Role) -> None:
        self._pressed.add(role)
        self._woken.notify()

    def _lower(self, role: Role, now: float) -> None:
        """Give way to producers at once. Unless the rate could not be lower: what is slow then is not slow because of
        catch-up, and the looks find out what is usual."""
        throttle = self._roles[role].throttle
        source = throttle.quota.source
        can_be_lower = source is not None and source.auto and not _is_at_least(throttle)
        if can_be_lower and self._choose(role, now, fresh=True, pressed=True):
            self._changed(role, "pressed")

    def _sources(self) -> list[RateSource | None]:
        return [self._source(role) for role in self._roles]

    def _source(self, role: Role) -> RateSource | None:
        return self._roles[role].throttle.quota.source if role in self._served else None

    def step(self, now: float, *, fresh: bool = True) -> None:
        """Choose both roles' rates, and put them in force. `now`: by the monotonic clock."""
        for role in self._roles:
            if self._choose(role, now, fresh=fresh):
                self._changed(role, "rate")

    def _choose(self, role: Role, now: float, *, fresh: bool, pressed: bool = False) -> bool:
        """Return whether another rate holds now. `pressed`: between two looks, for the sake of in-sync followers."""
        steered, source = self._roles[role], self._source(role)
        if source is None:
            if steered.choice is not None:
                # Without a rate source it is not seen that this catch-up ends and another begins, so what is known
                # of it is forgotten.
                steered.rate, steered.signals = RoleRate(), Signals()
            steered.choice = steered.told = None
            steered.throttle.timings.are_wanted = False
            return False
        held, wall = steered.throttle.quota.bytes_per_second, self._watch.now()
        since = self._watch.starts.of(source, wall)
        steered.choice = choice = steered.rate.choose(
            source,
            self._observed(role, steered, now, fresh=fresh, pressed=pressed),
            held,
            since=since,
            wall=wall,
            now=now,
        )
        steered.throttle.floor_bytes_per_second = min(
            max(source.least, choice.needed_bytes_per_second or 0.0), source.most
        )
        steered.throttle.timings.are_wanted = choice.auto and choice.held_by != HeldBy.NOTHING_BEHIND
        for broker, timings in steered.throttle.timings.brokers.items():
            timings.best_pause_seconds, timings.most_pause_seconds = steered.signals.pause_bounds(broker)
        if choice.bytes_per_second != held:
            steered.throttle.change_rate(choice.bytes_per_second, now)
        self._tell(role, steered, now)
        return choice.bytes_per_second != held

    def _observed(self, role: Role, steered: _SteeredRole, now: float, *, fresh: bool, pressed: bool) -> Observed:
        replica_stats, throttle = self._replica_stats_task.last(role), steered.throttle
        statistics = throttle.statistics
        moved = statistics.throttled_bytes_catching_up + statistics.throttled_bytes_in_sync
        used, carried = moved - steered.used_bytes, throttle.timings.carried_bytes - steered.carried_bytes
        seconds = now - steered.looked_at
        steered.used_bytes, steered.carried_bytes, steered.looked_at = moved, throttle.timings.carried_bytes, now
        readings = self._pauses(steered, now) if pressed else self._readings(steered, now)
        return Observed(
            replica_stats.behind,
            replica_stats.lag_messages,
            replica_stats.lag_bytes,
            replica_stats.growth_bytes_per_second,
            self._quota_checks.passing(role).in_sync,
            fresh,
            used_bytes_per_second=used / seconds if seconds > 0 else 0.0,
            carried_bytes_per_second=carried / seconds if seconds > 0 else 0.0,
            readings=readings,
        )

    def _readings(self, steered: _SteeredRole, now: float) -> list[Reading]:
        times = steered.throttle.timings.take_sample(steered.throttle.links, now)
        at_least = _is_at_least(steered.throttle)
        return steered.signals.read(times, now, at_least=at_least, host=self._host.reading)

    def _pauses(self, steered: _SteeredRole, now: float) -> list[Reading]:
        return steered.signals.read_pauses(steered.throttle.timings.take_last_pauses(), now)

    def _tell(self, role: Role, steered: _SteeredRole, now: float) -> None:
        choice, told = steered.choice, steered.told
        if choice is None:
            return
        was_late = told is not None and told.late
        if told is not None and choice.late == was_late:
            drift = abs(choice.bytes_per_second - told.bytes_per_second)
            same = choice.held_by == told.held_by and drift <= _TOLD_CHANGE * told.bytes_per_second
            if same or now - steered.told_at < TOLD_SECONDS:
                return
        facts = {
            "role": role.value,
            "bytes_per_second": choice.bytes_per_second,
            "held_by": str(choice.held_by),
            "reason": choice.words,
            "lag_bytes": choice.lag_bytes,
            "needed_bytes_per_second": choice.needed_bytes_per_second,
        }
        if choice.late and not was_late:
            self._log.error("deadline_late", **facts)
        elif was_late and not choice.late:
            self._log.info("deadline_late_ended", **facts)
        else:
            self._log.info("rate_chosen", **facts)
        steered.told, steered.told_at = choice, now


def _is_at_least(throttle: RoleThrottle) -> bool:
    source = throttle.quota.source
    return source is not None and throttle.quota.bytes_per_second <= source.least


class HostWatch:
    """Samples the host's disks and network, in a thread."""

    def __init__(self, read: Callable[[], HostCounters] = read_counters) -> None:
        self.reading: HostReading | None = None
        self._read = read
        self._last: tuple[float, HostCounters] | None = None

    async def look(self) -> None:
        """Take a sample."""
        found = None
        with trio.move_on_after(STEP_SECONDS):
            with suppress(NoThreadError):  # rates are chosen without the host's signals
                found = await in_thread(self._read, limiter=FILE_THREADS)
        now, before = trio.current_time(), self._last
        self._last = None if found is None else (now, found)
        self.reading = None
        if found is not None and before is not None and 0 < now - before[0] <= 2 * STALE_SECONDS:
            self.reading = reading(before[1], found, now - before[0])
