"""The running sidecar's overrides: stored, put in force, and told to the journal.

Trio's side of this package. Invariant: a change is acknowledged once it is on disk and in force; changes take place one
after the other.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from ..changes import Changes
from ..errors import ConfigurationError
from ..quota_files.override_store import edit, load
from ..quotas.override import active, added, undone, validated
from ..threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from pathlib import Path

    from ..logs.log import Log
    from ..quota_files.reload import QuotaWatch
    from ..quotas.override import LayerValue, Override, Overrides, Selector

IN_FORCE_SECONDS = 1.0
"""The longest wait of an answer until both roles hold to a change; it takes a turn or two of the loop."""
LOOK_SECONDS = 0.001
_MAX_CHANGES_LOGGED = 20
"""The most changes of an override that one line of the log shows."""
MAX_SLEEP_SECONDS = 30.0
"""The wall clock may be set while the task sleeps."""
OLD_SECONDS = 24 * 3600.0
"""An override without an end that is older than this is mentioned by readyz, and by an alert."""


class Effect(NamedTuple):
    """The effect of a change on one key at one place; values and layers as they are printed."""

    place: str
    key: str
    before: str
    before_layer: str
    after: str
    after_layer: str
    until: datetime | None
    """The end of the layer that says `after`; None: it does not end."""


class Applied(NamedTuple):
    """The result of a command on the overrides."""

    overrides: Overrides
    """The overrides that were added or undone."""
    effects: list[Effect]
    in_force: bool
    """True if both roles go by the overrides already."""


class OverrideKeeper:
    """Stores the overrides of the running sidecar and puts them in force."""

    def __init__(
        self,
        path: Path,
        watch: QuotaWatch,
        *,
        broker_id: int,
        log: Log,
        record: Callable[[Override, str, str | None], None] = lambda *_: None,
        in_force: Callable[[], bool] = lambda: True,
    ) -> None:
        """`record` tells the journal of an override, what was done to it (``set``, ``undone``, ``ended``) and by whom.
        `in_force`: whether both roles hold to the watch's quotas."""
        self._path = path
        self._watch = watch
        self._broker_id = broker_id
        self._log = log
        self._record = record
        self._in_force = in_force
        self._changing = trio.Lock()
        self._changes = Changes()
        self._may_differ = False
        """True if something else may be stored than is in force: a change was given up, and its thread was left."""
        self._threads = trio.CapacityLimiter(1)

    @property
    def problem(self) -> str | None:
        """The store's problem, ready to print; None if there is none."""
        return self._watch.overrides_problem

    @property
    def current(self) -> Overrides:
        """The overrides that have not ended, in the order in which they were made."""
        return active(self._watch.overrides, self._watch.now())

    def warnings(self) -> list[str]:
        """Return what an operator should know of the overrides, ready to print."""
        now = self._watch.now()
        old = [each for each in self.current if each.until is None and (now - each.since).total_seconds() > OLD_SECONDS]
        told = [
            f"override {each.id}{'' if each.label is None else f' ({each.label})'} by {each.by} has no end and is "
            f"{(now - each.since).days} days old: throttle-sidecar undo {each.id}, or move it into quotas.toml"
            for each in old[:_MAX_CHANGES_LOGGED]
        ]
        return told if self.problem is None else [f"overrides: {self.problem}", *told]

    async def add(self, new: Override) -> Applied:
        """Store an override and put it in force. Raises ConfigurationError: then nothing has changed."""
        valid = validated(new, self._broker_id)
        change = partial(added, new=valid, now=self._watch.now())
        keys = [(each.place, each.key) for each in valid.changes]
        async with self._changing:
            applied = Applied((valid,), *await self._changed(change, keys))
            self._tell((valid,), "set", valid.by)
            return applied

    async def undo(self, selector: Selector) -> Applied:
        """Remove overrides; what they hid counts again. Raises ConfigurationError: then nothing has changed."""
        async with self._changing:
            gone = selector.chosen(self.current)
            keys = [(change.place, change.key) for each in gone for change in each.changes]
            change = partial(undone, selector=selector, now=self._watch.now())
            applied = Applied(gone, *await self._changed(change, keys))
            self._tell(gone, "undone", selector.by)
            return applied

    async def run(self) -> None:
        """Log and record in the journal overrides that end; until cancelled.

        What a process before this one stored after this one had read the store is read first.
        """
        async with self._changing:
            await self._read_store()
        known = self.current
        while True:
            ends = [(each.until - self._watch.now()).total_seconds() for each in known if each.until is not None]
            with trio.move_on_after(max(min([MAX_SLEEP_SECONDS, *ends]), LOOK_SECONDS)):
                await self._changes.wait()
            if self._may_differ or self.problem is not None:
                async with self._changing:
                    await self._follow_store()
            now = self._watch.now()
            ended = tuple(each for each in known if not each.is_active(now) and each in self._watch.overrides)
            self._tell(ended, "ended", None)
            known = self.current

    async def _read_store(self) -> None:
        """Put in force what is stored, if it can be read."""
        loaded = await in_thread(load, self._path, self._broker_id, limiter=self._threads)
        if loaded.problem is None:
            self._watch.overrides_problem = None
            if loaded.overrides != self._watch.overrides:
                await self._watch.put_overrides(loaded.overrides)
            self._may_differ = False

    async def _follow_store(self) -> None:
        """Do the same, and log and record in the journal what that changes."""
        before = self._watch.overrides
        await self._read_store()
        after, now = self._watch.overrides, self._watch.now()
        for each in after:
            if each not in before:
                self._tell((each,), "set", each.by)
        self._tell(tuple(each for each in active(before, now) if each not in after), "undone", None)

    async def _changed(
        self, change: Callable[[Overrides], Overrides], keys: Iterable[tuple[str, str]]
    ) -> tuple[list[Effect], bool]:
        """Store what `change` makes of the overrides and put it in force; return the effects and whether both roles
        hold to them. Raises ConfigurationError."""
        if self.problem is not None:
            await self._follow_store()
        if self.problem is not None:
            raise ConfigurationError(f"{self.problem}: no override can be changed until this file is moved away")
        keys = list(dict.fromkeys(keys))
        before = [self._watch.layer_values(*key)[0] for key in keys]
        self._may_differ = True
        try:
            _, overrides = await in_thread(edit, self._path, self._broker_id, change, limiter=self._threads)
            await self._watch.put_overrides(overrides)
            self._may_differ = False
        finally:
            self._changes.notify()
        with trio.move_on_after(IN_FORCE_SECONDS):
            while not self._in_force():  # noqa: ASYNC110 - a turn or two of the loop, and nothing tells
                await trio.sleep(LOOK_SECONDS)
        return _effects(keys, before, [self._watch.layer_values(*key)[0] for key in keys]), self._in_force()

    def _tell(self, overrides: Overrides, action: str, by: str | None) -> None:
        for each in overrides:
            self._log.info(
                f"override_{action}",
                override=each.id,
                label=each.label,
                by=by,
                reason=each.reason,
                until=each.until,
                changes=[change.text for change in each.changes[:_MAX_CHANGES_LOGGED]],
            )
            self._record(each, action, by)


def _effects(
    keys: Iterable[tuple[str, str]], before: Iterable[LayerValue], after: Iterable[LayerValue]
) -> list[Effect]:
    return [
        Effect(place, key, old.value, old.layer, new.value, new.layer, new.until)
        for (place, key), old, new in zip(keys, before, after, strict=True)
    ]
