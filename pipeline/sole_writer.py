"""One writer at a time per directory of tables, on any Hadoop file system, without a service.

    OUT/_writer/7.json    the seventh turn: who has it, a count that rises while it is at work, or that it is done

A turn is taken by creating the file with the next number: of several processes that try, exactly one can. While it
works, it writes every few seconds that it is still there. Another process waits. It takes the next turn if this one is
done, if the process is gone (where both see the same processes), or if that has said nothing for `SILENT_SECONDS` by
the clock of the waiting one.

Invariant: whoever puts something in place has the highest number (`still_holds`).
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JError

from .errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .storage import Storage

WRITER = "_writer"
BEAT_SECONDS = 5.0
SILENT_SECONDS = 60.0
LOOK_SECONDS = 0.5
KEPT = 2
"""Turns of which the file is left, so that numbers never go back."""


class Turn(NamedTuple):
    storage: Storage
    number: int

    def still_holds(self) -> None:
        """Raise InputError if somebody else has taken over: this process must have been stopped for a long time."""
        if _highest(self.storage) != self.number:
            raise InputError(
                f"{self.storage.root}: another writer took over, since this one said nothing for"
                f" {SILENT_SECONDS:.0f} s: run it again, which takes nothing twice"
            )


@contextmanager
def sole_writer(
    storage: Storage, *, tell: Callable[[str], None] = lambda _: None, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Turn]:
    """Wait until nobody else writes below `storage.root`, and have it until the block ends. Raises InputError if the
    directory cannot be written."""
    storage.make_directory(storage.under(WRITER))
    turn = Turn(storage, _wait(storage, tell, sleep))
    ended = threading.Event()
    beating = threading.Thread(target=_beat, args=(turn, ended), name="sole writer", daemon=True)
    beating.start()
    try:
        yield turn
    finally:
        ended.set()
        beating.join()
        _write(turn, {"done": True})
        for number in _numbers(storage)[:-KEPT]:
            storage.remove(_path(storage, number))


class Watch:
    """Looks every `LOOK_SECONDS` at who has the turn."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._seen: tuple[int, str] | None = None
        self._silent_seconds = 0.0

    def look(self) -> tuple[int, str | None]:
        """Return the number of the turn, and who is at work in it; None: nobody, or nobody any more."""
        number = _highest(self._storage)
        said = _read(self._storage, number)
        self._silent_seconds = self._silent_seconds + LOOK_SECONDS if (number, said) == self._seen else 0.0
        self._seen = (number, said)
        is_over = _is_over(number, said) or self._silent_seconds >= SILENT_SECONDS
        return number, None if is_over else _who(said)


def _wait(storage: Storage, tell: Callable[[str], None], sleep: Callable[[float], None]) -> int:
    watch, told = Watch(storage), False
    while True:
        number, who = watch.look()
        if who is None:
            mine = json.dumps(_self(beat=0))
            if storage.create_text(_path(storage, number + 1), mine):
                return number + 1
            continue
        if not told:
            tell(f"waiting for another writer of {storage.root}: {who}")
            told = True
        sleep(LOOK_SECONDS)


def _is_over(number: int, said: str) -> bool:
    """Whether a turn is done. A file that cannot be read is just being written, so its writer is at work."""
    if not number:
        return True
    found = _parsed(said)
    if found.get("done"):
        return True
    pid, born = found.get("pid"), found.get("born")
    # An earlier version said no more of where it is than its host's name.
    here = all(found.get(name, value) == value for name, value in _here().items()) and "host" in found
    return here and isinstance(pid, int) and isinstance(born, str) and _born(pid) != born


def _born(pid: int) -> str | None:
    """When a process of this machine began, in ticks since the boot: a pid alone may have been given to another process
    since. None: there is no such process, or this system does not tell."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[19]
    except OSError:
        return None


def _who(said: str) -> str:
    found = _parsed(said)
    return f"process {found['pid']} on {found['host']}" if "pid" in found else "one that is just starting"


def _parsed(said: str) -> dict[str, Any]:
    try:
        found = json.loads(said)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _here() -> dict[str, str | None]:
    """Where a pid means one process. Two containers may have one host name, and each its own processes."""
    return {"host": socket.gethostname(), "boot": _boot(), "pid_namespace": _pid_namespace()}


def _boot() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
    except OSError:
        return None


def _pid_namespace() -> str | None:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return None


def _self(*, beat: int) -> dict[str, Any]:
    return {**_here(), "pid": os.getpid(), "born": _born(os.getpid()), "beat": beat}


def _numbers(storage: Storage) -> list[int]:
    names = (name.removesuffix(".json") for name in storage.files(storage.under(WRITER)))
    return sorted(int(name) for name in names if name.isdecimal())


def _highest(storage: Storage) -> int:
    return max(_numbers(storage), default=0)


def _path(storage: Storage, number: int) -> str:
    return storage.under(WRITER, f"{number}.json")


def _read(storage: Storage, number: int) -> str:
    # It may be gone, or half written, while we look.
    with suppress(Py4JError, UnicodeDecodeError):
        return storage.read_text(_path(storage, number))
    return ""


def _write(turn: Turn, said: dict[str, Any]) -> None:
    turn.storage.replace_text(_path(turn.storage, turn.number), json.dumps(said))


def _beat(turn: Turn, ended: threading.Event) -> None:
    beat = 0
    while not ended.wait(BEAT_SECONDS):
        beat += 1
        # A file system that fails for a moment: the next beat may come through; without any, another one takes over.
        with suppress(Py4JError, OSError):
            _write(turn, _self(beat=beat))
