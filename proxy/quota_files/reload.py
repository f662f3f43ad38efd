"""Keeps the quotas current: reads quotas.toml again when it changes, when asked, and when an `until` passes.

Thin: `proxy.quotas` has the meaning of the file; who waits for a change is up to the waiter. Reading happens in a
thread. Invariant: `current` is always the last good file's quotas, whole; a bad file changes nothing but a counter, and
every transition (changed, went bad, came back) is logged exactly once.
"""

from __future__ import annotations

import enum
import errno
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import trio

from ..changes import Changes
from ..errors import ConfigurationError
from ..files.reading import answers
from ..files.watching import follow, is_mounted_alone
from ..quotas import Change, QuotaFile, Quotas, RateStarts, effective
from ..quotas.advice import without_effect
from ..quotas.layer_values import LayerIndex
from ..quotas.override import active, in_order
from ..threads import in_thread
from .effective_quotas import (
    NO_EFFECTS,
    FileEffects,
    InForce,
    Source,
    WorkedOut,
    effects_between,
    effects_since_kept,
    hidden,
    log_fields,
    start_with,
    upcoming_of,
    work_out,
)
from .override_store import NOTHING_LOADED, Loaded, load
from .quota_file import WrittenQuotas, read_quotas_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ..logs.log import Log
    from ..quotas.layer_values import LayerValue
    from ..quotas.override import Override, Overrides, PlacedValue
    from ..quotas.sections import Layer
    from ..roles import Role

_MAX_SLEEP_SECONDS = 30.0
"""An `until` is of the wall clock, which may be set while the task sleeps, so it wakes at least this often."""
SHORT_BYTES = 16 * 1024
"""The size up to which a file's quotas are worked out at once: in a millisecond."""
FEW_CHANGES = 100
"""The most changes of overrides that are compared with a changed file at once; more are compared in a thread."""
MAX_CHANGES_SHOWN = 20
"""The most changes of an override that pages show."""
READ_SECONDS = 60.0
"""The longest time for the file's disk and the parser: the longest file is some seconds of work."""
WORKING_THREADS = trio.CapacityLimiter(1)
"""The thread for work that needs a core and no disk: those of `FILE_THREADS` may all be waiting for one."""

_MAY_PASS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.ETIMEDOUT})


class ReloadResult(enum.Enum):
    """The value is the metric label `outcome`."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    FAILED = "failed"


CLOCK = "clock"
"""The reason of an outcome that no file has, but an `until` in it."""


@dataclass(frozen=True, slots=True)
class ReloadOutcome:
    """The result of reading the file again."""

    result: ReloadResult
    error: str | None = None
    """The problem of a failed reload, ready to print."""
    changes: Mapping[str, tuple[object, object]] = field(default_factory=dict)
    """The values before and after, by key. Rates are bytes per second."""
    reason: str | None = None
    may_pass: bool = False
    """True for a transient failure (EMFILE, ENOMEM, EIO): retry."""
    effects: FileEffects = NO_EFFECTS
    """The keys that were edited, or whose section has ended."""


@dataclass(slots=True)
class ReloadStatistics:
    """Counters of reloads of a process."""

    outcomes: Counter[ReloadResult] = field(default_factory=Counter)
    last_reload_successful: bool = True
    last_success_timestamp_seconds: float | None = None
    """The POSIX time at which the file was last read and found good. After a start with a bad one: since when the
    quotas in force have been kept, which is not when they were read last; None where there were none to keep."""
    last_error: str | None = None


class QuotaWatch:
    """The only place that holds the current quotas."""

    def __init__(
        self,
        path: Path,
        quota_file: QuotaFile,
        *,
        broker_id: int,
        log: Log,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        starts: Mapping[str, float] = {},
        overrides: Loaded = NOTHING_LOADED,
    ) -> None:
        self._path = path
        self.never_changes = False
        """True if the file is mounted alone: edits outside do not reach us."""
        self.loaded = overrides
        """The overrides as the start found them."""
        self.overrides = overrides.overrides
        """The overrides in the order in which they were made."""
        self.layers = overrides.layers
        """The layers of the overrides, by id."""
        quota_file = replace(quota_file, overrides=in_order(self.overrides, self.layers))
        self._file = quota_file
        self.index = LayerIndex(quota_file, broker_id)
        """The layers' words on single keys."""
        self._broker_id = broker_id
        self._log = log
        self._clock = clock
        self._reading = trio.Lock()
        self._applying = trio.Lock()
        """A lock whose holder waits for no disk: changes by the clock (`until`) come even if a disk hangs."""
        self._threads = trio.CapacityLimiter(1)
        """A limiter of one thread: one that waits for the file's disk is not joined by another."""
        self._changes = Changes()
        self._worked_out_at = clock()
        """The wall clock when it was last read; one that shows less now has been set back."""
        self._current = effective(quota_file, broker_id, self._worked_out_at)
        inert = without_effect(quota_file, self._current, broker_id, self._worked_out_at)
        self.without_effect: Mapping[Role, Sequence[str]] = inert
        """Rates and lists that bound nothing, because no list selects anything for them; ready to print."""
        self.starts = RateStarts(starts)
        self.starts.follow(quota_file.start_keys(self._worked_out_at), self._worked_out_at)
        self._upcoming = upcoming_of(quota_file, broker_id, self._worked_out_at)
        self._observer: Callable[[ReloadOutcome], None] = lambda _: None
        self.source = Source.FILE
        """The source of the quotas in force."""
        self._written: bytes | None = None
        """The text of the last good quotas; None: there were none yet."""
        self._good = Changes()
        self._edited: tuple[bytes, InForce] | None = None
        """The last good quotas that an earlier process has kept, if they were others, and those of the start."""
        self.statistics = ReloadStatistics(last_success_timestamp_seconds=clock().timestamp())

    @classmethod
    def open(
        cls, path: Path, *, broker_id: int, log: Log, state: Path | None = None, overrides: Path | None = None
    ) -> QuotaWatch:
        """Open the quotas. Blocking.

        Never raises for a bad file: a start that failed would end replication, while the last good
        quotas, as `state` has them, or none at all are only not what the operator wants. `overrides`: the path of their
        store.
        """
        start = start_with(path, state)
        loaded = NOTHING_LOADED if overrides is None else load(overrides, broker_id)
        watch = cls(path, start.quota_file, broker_id=broker_id, log=log, starts=start.starts, overrides=loaded)
        watch.source, watch._written = start.source, start.content
        if start.kept is not None and start.kept != start.content:
            watch._edited = start.kept, watch._in_force
        if start.error is not None:
            watch.statistics.outcomes[ReloadResult.FAILED] += 1
            watch.statistics.last_reload_successful = False
            watch.statistics.last_success_timestamp_seconds = start.saved_at
            watch.statistics.last_error = start.error
            saved_at = None if start.saved_at is None else datetime.fromtimestamp(start.saved_at, UTC)
            in_force = {"in_force": start.source.value, "hash": start.quota_file.hash, "saved_at": saved_at}
            log.error("quotas_bad_at_start", path=str(path), error=start.error, state=start.state_said, **in_force)
        watch.never_changes = answers(path) and is_mounted_alone(path)
        if watch.never_changes:
            log.warning("quotas_file_mounted_alone", path=str(path))
        return watch

    def effects_of_start(self) -> ReloadOutcome:
        """Return, once, how quotas.toml was edited while no process ran. Blocking: a long file takes a second."""
        edited, self._edited = self._edited, None
        effects = NO_EFFECTS if edited is None else effects_since_kept(*edited, self._broker_id)
        return ReloadOutcome(ReloadResult.UNCHANGED, reason="start", effects=effects)

    @property
    def current(self) -> Quotas:
        return self._current

    @property
    def upcoming(self) -> Change | None:
        """The next change by the clock alone."""
        return self._upcoming

    async def wait_changed(self, seen: Quotas) -> Quotas:
        """Return the current quotas as soon as they are not `seen` any more, whenever they changed."""
        while self._current is seen:
            await self._changes.wait()
        await trio.lowlevel.checkpoint_if_cancelled()
        return self._current

    def overridden(self) -> Iterator[tuple[Override, list[tuple[PlacedValue, LayerValue, LayerValue]]]]:
        """Yield each override in force with those of its first changes that are effective: the change, its word, and
        what it hides."""
        now, index = self._clock(), self.index
        for override in active(self.overrides, now):
            found = (
                (each, *index.of_override(override.id, each.place, each.key, now))
                for each in override.changes[:MAX_CHANGES_SHOWN]
            )
            yield override, [(each, own, hidden) for each, is_effective, own, hidden in found if is_effective]

    async def put_overrides(self, overrides: Overrides, layers: Mapping[str, Layer]) -> None:
        """Put these overrides in force in place of the present ones.

        They are in the order in which they were made, and each has been found valid. `layers`: theirs, by id.
        """
        async with self._applying:
            changed = replace(self._file, overrides=in_order(overrides, layers))
            worked = await self._worked_out(changed, 0, overrides)
            self.overrides, self.layers = overrides, layers
            self._swap(changed, worked, "override")

    async def wait_good(self, seen: bytes | None) -> bytes:
        """Return the good quotas in force, as they are written, as soon as they are not `seen` any more."""
        while self._written is None or self._written == seen:
            await self._good.wait()
        await trio.lowlevel.checkpoint_if_cancelled()
        return self._written

    def observe(self, observer: Callable[[ReloadOutcome], None]) -> None:
        """Call `observer` each time the file has been read again."""
        self._observer = observer

    def now(self) -> datetime:
        """Return the time of the clock that quotas use."""
        return self._clock()

    async def reload(self, reason: str) -> ReloadOutcome:
        """Read the file now. Never raises for a bad file: that is an outcome."""
        async with self._reading:
            try:
                found = await _read(self._path, self._threads)
            except ConfigurationError as error:
                outcome = replace(self._failed(str(error), reason), may_pass=_may_pass(error))
            else:
                async with self._applying:
                    before = self._in_force
                    outcome = await self._succeed(*found, reason)
                outcome = await self._with_effects(outcome, before)
            return self._tell(outcome, reason)

    def _tell(self, outcome: ReloadOutcome, reason: str) -> ReloadOutcome:
        told = replace(outcome, reason=reason)
        self._observer(told)
        return told

    async def follow_file(self) -> None:
        """Read the file again whenever it changes, until cancelled."""
        await follow(self._path, self._look, self._watch_failed)

    async def _look(self) -> bool:
        return (await self.reload("watch")).may_pass

    def _watch_failed(self, error: OSError) -> None:
        self._log.error("quotas_watch_failed", path=str(self._path), error=str(error))

    async def follow_clock(self) -> None:
        """Resolve the quotas again whenever an `until` passes, until cancelled."""
        while True:
            seen = self._current
            pause = _MAX_SLEEP_SECONDS
            if seen.next_change is not None:
                pause = min(pause, max(0.0, (seen.next_change - self._clock()).total_seconds()))
            with trio.move_on_after(pause) as slept:
                await self.wait_changed(seen)
            now = self._clock()
            passed = seen.next_change is not None and now >= seen.next_change
            if slept.cancelled_caught and (passed or now < self._worked_out_at):
                async with self._applying:
                    before = self._in_force
                    worked = await self._worked_out(self._file, len(self._written or b""))
                    outcome = self._swap(self._file, worked, CLOCK)
                self._tell(await self._with_effects(outcome, before), CLOCK)

    def _failed(self, error: str, reason: str) -> ReloadOutcome:
        # The same bad file may be seen several times: the line says that it went bad, the counter how often.
        if self.statistics.last_error != error:
            self._log.error("quotas_reload_failed", path=str(self._path), reason=reason, error=error)
        self.statistics.outcomes[ReloadResult.FAILED] += 1
        self.statistics.last_reload_successful = False
        self.statistics.last_error = error
        return ReloadOutcome(ReloadResult.FAILED, error=error)

    async def _succeed(self, content: bytes, quota_file: QuotaFile, reason: str) -> ReloadOutcome:
        await self._warn_of_hidden(quota_file)
        quota_file = replace(quota_file, overrides=self._file.overrides)
        came_back = not self.statistics.last_reload_successful
        outcome = self._swap(quota_file, await self._worked_out(quota_file, len(content)), reason, came_back=came_back)
        self.statistics.outcomes[outcome.result] += 1
        self.statistics.last_reload_successful = True
        self.statistics.last_success_timestamp_seconds = self._clock().timestamp()
        self.statistics.last_error = None
        self.source = Source.FILE
        if content != self._written:
            self._written = content
            self._good.notify()
        return outcome

    async def _warn_of_hidden(self, quota_file: QuotaFile) -> None:
        """Log each key that the file changes and that an override hides: the change has no effect yet."""
        before, now = replace(self._file, overrides=()), self._clock()
        if before.base == quota_file.base:
            return
        overrides = [each for each in self.overrides if each.is_active(now)]
        work = partial(hidden, overrides, before, quota_file, self._broker_id, now)
        is_short = sum(len(each.changes) for each in overrides) <= FEW_CHANGES
        for override, change, was, is_now in work() if is_short else await in_thread(work, limiter=WORKING_THREADS):
            told = {"override": override.id, "label": override.label, "until": override.until}
            self._log.warning("quota_change_hidden", key=str(change), file_before=was, file=is_now, **told)

    @property
    def _in_force(self) -> InForce:
        return InForce(self._file, self.index, self._worked_out_at, len(self._written or b""))

    async def _with_effects(self, outcome: ReloadOutcome, before: InForce) -> ReloadOutcome:
        """Return the outcome with the effects that another file or the clock had, since `before`."""
        work = partial(effects_between, before, self._in_force, self._broker_id)
        is_short = self._is_short(max(before.size_bytes, len(self._written or b"")))
        return replace(outcome, effects=work() if is_short else await in_thread(work, limiter=WORKING_THREADS))

    def _is_short(self, size: int, overrides: Overrides = ()) -> bool:
        changes = sum(len(each.changes) for each in (*self.overrides, *overrides))
        return size <= SHORT_BYTES and changes <= FEW_CHANGES

    async def _worked_out(self, quota_file: QuotaFile, size: int, overrides: Overrides = ()) -> WorkedOut:
        """Resolve the quotas, in a thread if that is long; again, if other quotas have come into force meanwhile."""
        work = partial(work_out, quota_file, self._broker_id)
        size = max(size, len(self._written or b""))  # what differs from a long one takes long, too
        is_short = self._is_short(size, overrides)
        while True:
            before, now = self._current, self._clock()
            if is_short:
                return work(before, now)
            found = await in_thread(work, before, now, limiter=WORKING_THREADS)
            if self._current is before:
                return found

    def _swap(self, quota_file: QuotaFile, worked: WorkedOut, reason: str, *, came_back: bool = False) -> ReloadOutcome:
        self._worked_out_at = worked.at
        if worked.changes or came_back:
            self._log.info("quotas_reloaded", path=str(self._path), reason=reason, **log_fields(worked))
        self._file, self.index, self.without_effect = quota_file, worked.layer_index, worked.without_effect
        self.starts.follow(worked.start_keys, worked.at)
        if worked.quotas is not worked.before:
            self._current, self._upcoming = worked.quotas, worked.upcoming
            self._changes.notify()
        result = ReloadResult.CHANGED if worked.changes else ReloadResult.UNCHANGED
        return ReloadOutcome(result, changes=worked.changes)


async def _read(path: Path, threads: trio.CapacityLimiter) -> WrittenQuotas:
    """Read the file in a thread. Raises ConfigurationError."""
    with trio.move_on_after(READ_SECONDS):
        # Where the file's disk hangs, the thread is left to it: the process is to end when it is told to.
        return await in_thread(read_quotas_file, path, limiter=threads)
    late = TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
    raise ConfigurationError(f"{path}: cannot be read: no answer within {READ_SECONDS:g} s") from late


def _may_pass(error: ConfigurationError) -> bool:
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in _MAY_PASS
