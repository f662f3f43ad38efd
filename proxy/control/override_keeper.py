"""The running sidecar's overrides: the process is the truth about them; their store is for its next start.

Trio's side of this package. Invariants: `set` is acknowledged once it is stored and in force; `undo` takes effect
whatever the disk does, and is stored as soon as that can be; changes take place in turn. Whatever happens
to the store while the process runs changes nothing that is in force: it is written again from memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import trio

from ..changes import Changes
from ..errors import ConfigurationError
from ..quota_files.override_store import Loaded, damaged_path, load, set_aside, stamp, want_of_room, write
from ..quotas.advice import about_itself
from ..quotas.layer_values import effects_of
from ..quotas.override import active, added, layer_of, undone, validated
from ..threads import NoThreadError, in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from ..logs.log import Log
    from ..quota_files.reload import QuotaWatch
    from ..quotas.layer_values import Effect, Key, LayerIndex
    from ..quotas.override import Override, Overrides, Selector
    from ..quotas.sections import Layer

IN_FORCE_SECONDS = 1.0
"""The longest wait of an answer until both roles hold to a change; it takes a turn or two of the loop."""
LOOK_SECONDS = 0.001
_MOMENT = timedelta(microseconds=1)
_MAX_CHANGES_LOGGED = 20
"""The most changes of an override that one line of the log shows."""
CHECK_SECONDS = 10.0
"""The time between two looks at the store, and the longest sleep: the wall clock may be set while the task sleeps."""
STORE_SECONDS = 3.0
"""The longest wait for the disk: a change that waits for a look at the store as well is answered before the pages give
it up."""
OLD_SECONDS = 24 * 3600.0
"""An override without an end that is older than this is mentioned by readyz, and by an alert."""
_WORK = trio.CapacityLimiter(1)
"""The thread that validates and describes overrides: ten thousand changes take a core some time, and no disk."""
_Result = TypeVar("_Result")
Record = Callable[["Override", str, str | None, "Sequence[Effect] | None"], None]
"""A callback with an override, the action (``set``, ``undone``, ``ended``), by whom, and the effects of its
first changes; None: the previous process has done it, and knows them."""


class Applied(NamedTuple):
    """The result of a command on the overrides."""

    overrides: Overrides
    """The overrides that were added or undone."""
    effects: list[Effect]
    in_force: bool
    """True if both roles go by the overrides already."""
    not_stored: str | None = None
    """The reason why this is not stored yet; None if it is."""
    warnings: tuple[str, ...] = ()
    """Rates and lists that bound nothing since this change, ready to print."""


class OverrideKeeper:
    """Puts the overrides of the running sidecar in force, and stores them."""

    def __init__(
        self,
        path: Path,
        watch: QuotaWatch,
        *,
        broker_id: int,
        log: Log,
        record: Record = lambda *_: None,
        in_force: Callable[[], bool] = lambda: True,
    ) -> None:
        """Keep the overrides that the watch has loaded. `in_force`: whether both roles hold to the watch's quotas."""
        self._path = path
        self._watch = watch
        self._broker_id = broker_id
        self._log = log
        self._record = record
        self._in_force = in_force
        self._changing = trio.Lock()
        self._changes = Changes()
        self._disk = trio.CapacityLimiter(1)
        self._stored: object = None
        """The stamp of the file that holds the overrides in force; None: there is none, and need not be."""
        self._is_behind = self._is_unreadable = False
        """True if the file is not known to hold the overrides in force."""
        self._follows_store = True
        """True until the file has been read once more, since this process began to serve: the one before may have
        stored something after this one had read it. Until then nothing is written."""
        self._undone_meanwhile = set[str]()
        """The overrides that were undone until then."""
        self._inherited: Overrides | None = None
        self.not_stored: str | None = None
        """The reason why the overrides in force cannot be stored; None if they are, or will be in a moment."""
        self.damaged: str | None = None
        """The problem of a file that a start could not read, as long as it lies there; None if there is none."""
        self.no_room: str | None = None
        """The reason why nothing more can be stored, as far as the file system tells; None if something can."""
        if watch.loaded.problem is not None:
            self._take_for_damaged(watch.loaded)

    @property
    def current(self) -> Overrides:
        """The overrides that have not ended, in the order in which they were made."""
        return active(self._watch.overrides, self._watch.now())

    @property
    def problem(self) -> str | None:
        """The store's problem, ready to print; None if there is none."""
        return self.not_stored or self.damaged or self.no_room

    @property
    def behind(self) -> str | None:
        """The reason why the store lacks the overrides in force, so that a restart would change them; None if it has
        them."""
        return (self.not_stored or "it is being stored") if self._is_behind else None

    @property
    def is_in_force(self) -> bool:
        """True if both roles go by the overrides already."""
        return self._in_force()

    @property
    def unstored(self) -> list[Override] | None:
        """The overrides in force, if the store does not have them; None if it has."""
        return list(self._watch.overrides) if self._is_behind else None

    def inherit(self, overrides: list[Override]) -> None:
        """Follow these in place of the store: the previous process could not store them."""
        self._inherited = tuple(overrides)

    def old(self) -> list[tuple[str, str]]:
        """Return the ids of the overrides without an end that are older than `OLD_SECONDS`, each with a sentence."""
        now = self._watch.now()
        old = [each for each in self.current if each.until is None and (now - each.since).total_seconds() > OLD_SECONDS]
        return [
            (each.id, f"override {_named(each)} by {each.by} has no end and is {(now - each.since).days} days old")
            for each in old[:_MAX_CHANGES_LOGGED]
        ]

    async def add(self, new: Override) -> Applied:
        """Store an override and put it in force. Raises ConfigurationError: then nothing has changed."""
        valid, layer = await in_thread(validated, new, self._broker_id, limiter=_WORK)
        return await self._to_its_end(partial(self._add, valid, layer))

    async def undo(self, selector: Selector) -> Applied:
        """Remove overrides; the values they hid count again. Raises ConfigurationError: then nothing has changed."""
        return await self._to_its_end(partial(self._undo, selector))

    async def _to_its_end(self, change: Callable[[], Awaitable[Applied]]) -> Applied:
        """Make a change, whoever still waits for the answer: it is not to be stored and not in force."""
        with trio.CancelScope(shield=True):
            async with self._changing:
                return await change()
        raise AssertionError("a shield is not cancelled")

    async def _add(self, new: Override, layer: Layer) -> Applied:
        if not await self._follow_store():
            raise ConfigurationError(f"not stored, so nothing has changed: {self.not_stored}")
        known, before, inert = self._watch.overrides, self._watch.index, self._watch.without_effect
        overrides = await in_thread(added, known, new, self._watch.now(), limiter=_WORK)
        if overrides is not known:
            try:
                await self._store(overrides)
            except ConfigurationError as error:
                raise ConfigurationError(f"not stored, so nothing has changed: {error}") from error
            await self._watch.put_overrides(overrides, {**self._watch.layers, new.id: layer})
        effects = await self._effects((new,), before)
        if overrides is not known:
            self._tell([new], "set", new.by, effects)
        found = (
            text for role, texts in self._watch.without_effect.items() for text in texts if text not in inert[role]
        )
        warnings = (*about_itself(layer, self._broker_id), *found)
        return (await self._applied((new,), effects))._replace(warnings=warnings)

    async def _undo(self, selector: Selector) -> Applied:
        is_followed = await self._follow_store()
        gone, before = selector.chosen(self.current), self._watch.index
        overrides = undone(self._watch.overrides, selector, self._watch.now())
        await self._watch.put_overrides(overrides, self._watch.layers)
        self._is_behind = True
        effects = await self._effects(gone, before)
        self._tell(gone, "undone", selector.by, effects)
        if is_followed:
            with suppress(ConfigurationError):
                await self._store(overrides)
        else:
            self._undone_meanwhile.update(each.id for each in gone)
        return (await self._applied(gone, effects))._replace(not_stored=self.not_stored)

    async def run(self) -> None:
        """Keep the store as it should be; log and record in the journal overrides that end; until cancelled."""
        try:
            known, checks_at = self.current, trio.current_time()
            while True:
                if trio.current_time() >= checks_at:
                    async with self._changing:
                        follows = self._follows_store
                        if await self._follow_store():
                            known = self.current if follows else known
                            await self._check_store()
                    checks_at = trio.current_time() + CHECK_SECONDS
                ends = [(each.until - self._watch.now()).total_seconds() for each in known if each.until is not None]
                with trio.move_on_after(max(min([CHECK_SECONDS, *ends]), LOOK_SECONDS)):
                    await self._changes.wait()
                now, left = self._watch.now(), {each.id for each in self._watch.overrides}
                over = tuple(each for each in known if not each.is_active(now) and each.id in left)
                known = active(self._watch.overrides, now)
                if over:
                    since = min(each.until for each in over if each.until is not None) - _MOMENT
                    self._tell(over, "ended", None, await self._effects(over, self._watch.index, since))
        except trio.Cancelled:
            self._follows_store = True  # another process serves from here on
            raise

    async def _follow_store(self) -> bool:
        """Put in force the overrides that the previous process has stored last, unless that is done already. False if
        the disk does not tell them."""
        if not self._follows_store:
            return True
        loaded = None
        try:
            if self._inherited is not None:
                loaded = await in_thread(_inherited, self._inherited, self._broker_id, limiter=_WORK)
                self._inherited, self._is_behind = None, True
            else:
                found = await self._on_disk(partial(stamp, self._path))
                # Else no other process has stored anything since this one failed to.
                if not self._is_behind or found != self._stored:
                    loaded = await self._on_disk(partial(load, self._path, self._broker_id))
                    self._stored = await self._on_disk(partial(stamp, self._path))
                    self._judge(loaded)
        except ConfigurationError as error:
            self._failed(str(error))
            return False
        self._follows_store = False
        if loaded is not None and loaded.found and (loaded.overrides or loaded.problem is None):
            await self._follow(loaded)
        self._undone_meanwhile.clear()
        return True

    def _judge(self, loaded: Loaded) -> None:
        """Note whether the file that was read may be gone by."""
        if loaded.problem is None:
            self._is_behind = self._is_unreadable = False
        elif not self._is_unreadable:
            self._take_for_damaged(loaded)

    def _take_for_damaged(self, loaded: Loaded) -> None:
        self._is_behind = self._is_unreadable = True
        self.damaged = loaded.problem
        self._log.error("overrides_unreadable", error=loaded.problem, overrides_in_force=len(loaded.overrides))

    async def _follow(self, loaded: Loaded) -> None:
        """Put these in force but for what was undone meanwhile."""
        before = self._watch.overrides
        overrides = tuple(each for each in loaded.overrides if each.id not in self._undone_meanwhile)
        self._is_behind = self._is_behind or overrides != loaded.overrides
        if overrides == before:
            return
        await self._watch.put_overrides(overrides, loaded.layers)
        for each in overrides:
            if each not in before:
                self._tell([each], "set", each.by, None)
        gone = [each for each in active(before, self._watch.now()) if each not in overrides]
        self._tell(gone, "undone", None, None)

    async def _check_store(self) -> None:
        """Write the store if it lacks the overrides in force: a write failed, or something else changed the file."""
        overrides = self._watch.overrides
        try:
            found = await self._on_disk(partial(_look, self._path))
            is_foreign = found.stamp != self._stored or (found.stamp is None and bool(overrides))
            if is_foreign and not self._is_behind:
                self._log.error("overrides_restored", path=str(self._path), overrides_in_force=len(self.current))
            if is_foreign or self._is_behind:
                await self._store(overrides)
                found = await self._on_disk(partial(_look, self._path))  # a file may have been set aside
        except ConfigurationError as error:
            self._failed(str(error))
            return
        self.no_room = found.no_room
        self.not_stored = None
        aside = f"{damaged_path(self._path)}: a start could not read it"
        self.damaged = (self.damaged or aside) if found.damaged else None

    async def _store(self, overrides: Overrides) -> None:
        """Write the store. Raises ConfigurationError; then it is tried again (`run`)."""
        self._is_behind = True
        try:
            if self._is_unreadable:
                await self._on_disk(partial(set_aside, self._path))
                self._is_unreadable = False
            self._stored = await self._on_disk(partial(write, self._path, overrides))
        except ConfigurationError as error:
            self._failed(str(error))
            raise
        self.not_stored, self._is_behind = None, False

    def _failed(self, error: str) -> None:
        if self.not_stored is None:
            self._log.error("overrides_not_stored", error=error)
        self.not_stored = error

    async def _on_disk(self, work: Callable[[], _Result]) -> _Result:
        """Return the result of `work`, done in a thread. Raises ConfigurationError if the disk refuses or is silent."""
        with trio.move_on_after(STORE_SECONDS):
            try:
                return await in_thread(work, limiter=self._disk)
            except OSError as error:
                raise ConfigurationError(f"{self._path}: {error.strerror or error}") from error
            except NoThreadError as error:
                raise ConfigurationError(f"{self._path}: {error}") from error
        raise ConfigurationError(f"{self._path}: no answer within {STORE_SECONDS:g} s")

    async def _effects(
        self, overrides: Overrides, before: LayerIndex, since: datetime | None = None
    ) -> Mapping[Key, Effect]:
        """Return the effect on each key of overrides that were changed; `since`: the moment before, if that is not
        now."""
        now = self._watch.now()
        return await in_thread(_effects, overrides, before, self._watch.index, since or now, now, limiter=_WORK)

    async def _applied(self, overrides: Overrides, effects: Mapping[Key, Effect]) -> Applied:
        """Return the effect of a change, once both roles hold to it, or late."""
        self._changes.notify()
        with trio.move_on_after(IN_FORCE_SECONDS):
            while not self._in_force():  # noqa: ASYNC110 - a turn or two of the loop, and nothing tells
                await trio.sleep(LOOK_SECONDS)
        return Applied(overrides, list(effects.values()), self._in_force())

    def _tell(
        self, overrides: Iterable[Override], action: str, by: str | None, effects: Mapping[Key, Effect] | None
    ) -> None:
        for each in overrides:
            first = each.changes[:_MAX_CHANGES_LOGGED]
            self._log.info(
                f"override_{action}",
                override=each.id,
                label=each.label,
                by=by,
                reason=each.reason,
                until=each.until,
                changes=[change.text for change in first],
            )
            told = None if effects is None else [effects[change.place, change.key] for change in first]
            self._record(each, action, by, told)


def _inherited(overrides: Overrides, broker_id: int) -> Loaded:
    """Return another process' overrides as if they had been stored. Raises ConfigurationError."""
    return Loaded(overrides, {each.id: layer_of(each, broker_id) for each in overrides}, found=True)


def _named(override: Override) -> str:
    return override.id if override.label is None else f"{override.id} ({override.label})"


class _Found(NamedTuple):
    """The state of the store's files."""

    stamp: object
    damaged: bool
    no_room: str | None


def _look(path: Path) -> _Found:
    """Look at the store. Blocking; raises OSError."""
    return _Found(stamp(path), os.path.lexists(damaged_path(path)), want_of_room(path))


def _effects(
    overrides: Overrides, before: LayerIndex, after: LayerIndex, since: datetime, now: datetime
) -> Mapping[Key, Effect]:
    keys = dict.fromkeys((change.place, change.key) for each in overrides for change in each.changes)
    return {(each.place, each.key): each for each in effects_of(keys, before, after, since, now)}
