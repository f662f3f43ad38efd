"""Waits until a file changes: edited in place, replaced by a rename, or reached through symbolic links that now lead
elsewhere (a Kubernetes ConfigMap swaps its ``..data`` link).

Watches the directories of the file and of every link on the way to it, not the file itself: a watch on a file ends with
the inode. Once a second the file itself is looked at, since the kernel does not report what another machine does to it
(NFS, a bind mount of a virtual machine's host). A file that is mounted alone never changes here: Kubernetes (`subPath`)
and Docker mount the inode that it has at that moment, and an editor outside puts another inode in its place.

Invariants: a change made after `open` returned is reported, by `wait_changed` returning, whatever came before it; a
disk that hangs keeps no cancelled caller for more than `PATIENCE_SECONDS`.
"""

from __future__ import annotations

import errno
import math
import os
import re
import threading
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar, TypeVarTuple

import trio

from ..threads import FILE_THREADS, in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from watchfiles._rust_notify import RustNotify


_STEP_MS = 40
"""A change is complete once there was no further for this long (an editor writes, renames, then sets the mode). The
thread looks this often; every 20 ms it took 6 % of a busy sidecar's CPU (measured)."""
_DEBOUNCE_MS = 80
"""A file that is changed again and again is reported this often, since a change is to take effect within 250 ms."""
_LOOK_AGAIN_MS = 1000
"""The file is looked at this often even if inotify says nothing, as when a watched directory is itself replaced."""
_RETRY_SECONDS = 1.0
"""The wait after the file's directory could not be watched, or the file could not be read."""
PATIENCE_SECONDS = 2.0
"""The longest wait for the thread of a watch that is to end. If its disk hangs, the thread is abandoned, with its open
descriptors."""
_CHECK_SECONDS = 1.0
_MAX_MISSED = 10
"""The number of checks in a row at which the watcher's thread has not looked again that means a hung disk. Checks are
counted instead of seconds, because a process that was stopped misses no check."""
_MAX_LINKS = 40
"""The most links followed on the way to the file, as in the kernel; a longer chain is taken for a loop."""

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class _Route(NamedTuple):
    """The way to a file: the names that lead to it, and the directories they are in, with their identity."""

    names: frozenset[str]
    directories: Mapping[str, tuple[int, int]]


_State = tuple[int, int, int, int] | None
"""The facts by which a replaced or changed file is recognised; None: no file could be looked at."""


class FileWatch:
    """A watch on a file, by the directories on the way to it."""

    def __init__(self, path: Path, route: _Route, notify: RustNotify, state: _State) -> None:
        self._path = path
        self._route = route
        self._notify = notify
        self._state = state
        """The file as the last look found it."""
        self._looks = 0
        self._threads = trio.CapacityLimiter(1)
        """A limiter of one thread: if it hangs, no second hangs beside it."""
        self._is_left = False
        """True if the watcher thread is stuck and was abandoned."""

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path) -> AsyncIterator[FileWatch]:
        """Watch a file while the block lasts. Raises OSError if a directory is missing or cannot be watched."""
        with ExitStack() as kept:
            route = await _blocking(_route_to, path)
            route = await _blocking(_kept, route, kept)
            notify = await _blocking(_notify_about, route)
            watch = cls(path, route, kept.enter_context(notify), await _blocking(_state_of, path))
            try:
                yield watch
            finally:
                if watch._is_left:
                    kept.pop_all()

    async def wait_changed(self) -> bool:
        """Return True if the file is still reached through the watched directories; if not, a new watch has to be
        opened.

        Raises OSError if the way to the file ends: a directory or a link is gone, unreadable, or leads in a circle; or
        if its disk does not answer.
        """
        stop = threading.Event()
        still_good: bool | OSError = False
        async with trio.open_nursery() as nursery:
            with trio.CancelScope(shield=True) as patience:
                nursery.start_soon(_set_when_cancelled, stop, patience)
                nursery.start_soon(self._give_up_what_hangs, stop, patience)
                try:
                    still_good = await in_thread(self._watch, stop, limiter=self._threads)
                except OSError as error:  # Raised outside the nursery, which would wrap the error in an ExceptionGroup.
                    still_good = error
            self._is_left = patience.cancelled_caught
            nursery.cancel_scope.cancel()
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._is_left:
            raise OSError(errno.ETIMEDOUT, "its disk does not answer", str(self._path))
        if isinstance(still_good, OSError):
            raise still_good
        return still_good

    async def _give_up_what_hangs(self, stop: threading.Event, patience: trio.CancelScope) -> None:
        seen, missed = self._looks, 0
        while missed < _MAX_MISSED:
            await trio.sleep(_CHECK_SECONDS)
            seen, missed = self._looks, missed + 1 if self._looks == seen else 0
        stop.set()
        patience.cancel()

    def _watch(self, stop: threading.Event) -> bool:
        """Watch in a thread, which ends when a cancelled caller sets `stop`, unless its disk hangs."""
        while True:
            self._looks += 1
            seen = self._notify.watch(_DEBOUNCE_MS, _STEP_MS, _LOOK_AGAIN_MS, stop)
            if seen in ("stop", "signal"):
                return True
            if _route_to(self._path) != self._route:
                return False
            before, self._state = self._state, _state_of(self._path)
            is_named = not isinstance(seen, str) and any(changed in self._route.names for _, changed in seen)
            if is_named or self._state != before:
                return True


async def follow(path: Path, look: Callable[[], Awaitable[bool]], failed: Callable[[OSError], None]) -> None:
    """Call `look` when the watch begins and whenever the file may have changed, until cancelled. If a look returns
    true, it is repeated after a second, too.

    `failed` is called once when the file can no longer be watched. Watching is tried again every second. Meanwhile
    `look` is called once, whenever the file has become another, and to repeat a look: a user who has no inotify
    instance left can still read the file.
    """
    failing = again = False
    state: _State = None
    while True:
        try:
            async with FileWatch.open(path) as watch:
                failing = False
                # This look sees changes from before the watch began.
                again = await look()
                while await _changed_or_due(watch, again):
                    again = await look()
        except OSError as error:
            before, state = state, None
            with trio.move_on_after(PATIENCE_SECONDS):
                state = await _blocking(_state_of, path)
            if not failing:
                failed(error)
            if not failing or again or state != before:
                again = await look()
            failing = True
            await trio.sleep(_RETRY_SECONDS)


async def _changed_or_due(watch: FileWatch, is_due: bool) -> bool:
    with trio.move_on_after(_RETRY_SECONDS if is_due else math.inf):
        return await watch.wait_changed()
    return True


def _kept(route: _Route, until: ExitStack) -> _Route:
    """Return the same route and keep its directories open: while a directory is open, no other gets its inode
    number.

    On ext4, a directory that is removed and made again usually has the same number. Then nothing would tell that the
    kernel watches a directory that is gone. Raises OSError.
    """
    identities = {}
    for directory in route.directories:
        descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        until.callback(os.close, descriptor)
        identities[directory] = _identity(os.fstat(descriptor))
    return route._replace(directories=identities)


async def _set_when_cancelled(stop: threading.Event, patience: trio.CancelScope) -> None:
    try:
        await trio.sleep_forever()
    finally:
        stop.set()
        patience.deadline = trio.current_time() + PATIENCE_SECONDS


async def _blocking(work: Callable[[*_Arguments], _Result], *arguments: *_Arguments) -> _Result:
    """Ask the disk in a thread. If the caller is cancelled, the thread is left to itself."""
    return await in_thread(work, *arguments, limiter=FILE_THREADS)


def load_notifier() -> None:
    """Import watchfiles' notifier and the package around it, which takes 0.1 s of CPU. Blocking. Raises ImportError."""
    import watchfiles._rust_notify  # noqa: F401


def _notify_about(route: _Route) -> RustNotify:
    # Imported here, in a thread, and not before traffic is served: with the package around it, it takes 0.1 s of CPU.
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


def _state_of(path: Path) -> _State:
    try:
        status = path.stat()
    except (OSError, ValueError):  # a zero byte in the path
        return None
    return *_identity(status), status.st_mtime_ns, status.st_size


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


_MOUNTINFO = Path("/proc/self/mountinfo")
_MOUNT_POINT = 4
"""The fifth field; see proc_pid_mountinfo(5)."""
_ESCAPED = re.compile(r"\\([0-7]{3})")


def is_mounted_alone(path: Path, mountinfo: Path = _MOUNTINFO) -> bool:
    """Return True if `path` itself is a mount point. Blocking; False if the kernel does not say."""
    try:
        lines = mountinfo.read_bytes().decode(errors="surrogateescape").splitlines()
    except OSError:
        return False
    place = os.path.realpath(path)
    return any(_mount_point(line) == place for line in lines)


def _mount_point(line: str) -> str:
    """Return the path, in which mountinfo writes spaces, tabs, newlines and backslashes in octal."""
    return _ESCAPED.sub(lambda code: chr(int(code[1], 8)), line.split()[_MOUNT_POINT])
