"""Waits until one file changes, however that happens: edited in place, replaced by a rename, or reached
through symbolic links that now lead elsewhere (a Kubernetes ConfigMap swaps its ``..data`` link).

Knows nothing of what is in the file. Watches the directories of the file and of every link on the way to it,
not the file itself: a watch on a file ends with the inode. Invariant: a change made after `open` returned is
reported, by `wait_changed` returning, whatever came before it.
"""

from __future__ import annotations

import errno
import math
import os
import threading
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import trio

from ..threads import FILE_THREADS, in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from watchfiles._rust_notify import RustNotify

_STEP_MS = 40
"""Quiet for this long, and a change is complete (an editor writes, renames, then sets the mode). The thread looks so
often: at 20 ms it was 6 % of what a sidecar at work cost (measured)."""
_DEBOUNCE_MS = 80
"""A file that never rests is reported this often: a change is to take effect within 250 ms."""
_LOOK_AGAIN_MS = 1000
"""inotify says nothing when a watched directory is itself replaced."""
_RETRY_SECONDS = 1.0
"""After the directory of the file could not be watched, or the file not be read."""
_MAX_LINKS = 40
"""The most links followed on the way to the file, as in the kernel; a longer chain is taken for a loop."""


class _Route(NamedTuple):
    """The way to a file: the names that decide what it is, and the directories they are in, with their
    identity."""

    names: frozenset[str]
    directories: Mapping[str, tuple[int, int]]


class FileWatch:
    def __init__(self, path: Path, route: _Route, notify: RustNotify) -> None:
        self._path = path
        self._route = route
        self._notify = notify

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path) -> AsyncIterator[FileWatch]:
        """Raises OSError if a directory is missing or cannot be watched."""
        with ExitStack() as kept:
            route = await in_thread(_route_to, path, limiter=FILE_THREADS)
            route = await in_thread(_kept, route, kept, limiter=FILE_THREADS)
            notify = await in_thread(_notify_about, route, limiter=FILE_THREADS)
            yield cls(path, route, kept.enter_context(notify))

    async def wait_changed(self) -> bool:
        """Tell whether the file is still reached through the watched directories; if not, a new watch has to be opened.

        Raises OSError if the way to the file ends: a directory or a link is gone, unreadable, or leads in a circle.
        """
        stop = threading.Event()
        still_good: bool | OSError = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_set_when_cancelled, stop)
            try:
                still_good = await in_thread(self._watch, stop, limiter=FILE_THREADS)
            except OSError as error:  # Raised outside the nursery, which would wrap the error in an ExceptionGroup.
                still_good = error
            nursery.cancel_scope.cancel()
        await trio.lowlevel.checkpoint_if_cancelled()
        if isinstance(still_good, OSError):
            raise still_good
        return still_good

    def _watch(self, stop: threading.Event) -> bool:
        """Watch in a thread. Trio waits for the thread to end, so a cancelled caller sets `stop`."""
        while True:
            seen = self._notify.watch(_DEBOUNCE_MS, _STEP_MS, _LOOK_AGAIN_MS, stop)
            if seen in ("stop", "signal"):
                return True
            if _route_to(self._path) != self._route:
                return False
            if not isinstance(seen, str) and any(changed in self._route.names for _, changed in seen):
                return True


async def follow(path: Path, look: Callable[[], Awaitable[bool]], failed: Callable[[OSError], None]) -> None:
    """Call `look` when the watch begins and whenever the file may have changed, until cancelled; a second after a look
    that says that it is to be repeated, too.

    `failed` is told once when the file can no longer be watched. It is tried again every second, and what cannot be
    watched can rarely be read, so `look` is called once then too, to find that out.
    """
    failing = False
    while True:
        try:
            async with FileWatch.open(path) as watch:
                failing = False
                # What changed before the watch began is seen here.
                again = await look()
                while await _changed_or_due(watch, again):
                    again = await look()
        except OSError as error:
            if not failing:
                failing = True
                failed(error)
                await look()
            await trio.sleep(_RETRY_SECONDS)


async def _changed_or_due(watch: FileWatch, is_due: bool) -> bool:
    with trio.move_on_after(_RETRY_SECONDS if is_due else math.inf):
        return await watch.wait_changed()
    return True


def _kept(route: _Route, until: ExitStack) -> _Route:
    """The same route with its directories kept open: while one is, no other has its inode number.

    A directory that is removed and made again has the same number on ext4, as a rule; nothing else would tell that the
    kernel has nothing more to say of it. Raises OSError.
    """
    identities = {}
    for directory in route.directories:
        descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        until.callback(os.close, descriptor)
        identities[directory] = _identity(os.fstat(descriptor))
    return route._replace(directories=identities)


async def _set_when_cancelled(stop: threading.Event) -> None:
    try:
        await trio.sleep_forever()
    finally:
        stop.set()


def load_notifier() -> None:
    """Blocking: with the package around it it takes 0.1 s of CPU. Raises ImportError."""
    import watchfiles._rust_notify  # noqa: F401


def _notify_about(route: _Route) -> RustNotify:
    # Here, in a thread, and not before traffic is served: with the package around it it takes 0.1 s of CPU to load.
    try:
        from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError
    except ImportError as error:  # its shared object wants a descriptor
        raise OSError(str(error)) from error
    try:
        return RustNotify(
            sorted(route.directories),
            debug=False,
            force_polling=False,
            poll_delay_ms=0,
            recursive=False,
            ignore_permission_denied=False,
        )
    except WatchfilesRustInternalError as error:
        raise OSError(str(error)) from error


def _route_to(path: Path) -> _Route:
    names: set[Path] = set()
    pending = list(path.absolute().parts[1:])
    here, links = Path("/"), 0
    while pending:
        name = pending.pop(0)
        step = here / name
        if name == "..":
            here = here.parent
        elif step.is_symlink():
            names.add(step)
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            target = step.readlink()
            here = Path("/") if target.is_absolute() else here
            pending = [part for part in target.parts if part != "/"] + pending
        else:
            here = step
    names.add(here)
    parents = {name.parent for name in names}
    return _Route(
        names=frozenset(str(name) for name in names),
        directories={str(parent): _identity(parent.stat()) for parent in parents},
    )


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
