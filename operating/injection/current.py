"""A value that is made of files, and made again when they change: a certificate, or what is added to pods.

Invariant: while the files are wrong, the last good value stays in use, and the log tells each cause once.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from proxy.errors import ConfigurationError
from proxy.threads import FILE_THREADS, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from proxy.logs.log import Log

LOOK_SECONDS = 1.0
_T = TypeVar("_T")


class Current(Generic[_T]):
    """`value` is what `make` last made of `files`.

    Args:
        what: names the value in the log.
        files: the files to look at.
        make: makes the value; blocking; raises ConfigurationError.
    """

    def __init__(self, what: str, files: Sequence[Path], make: Callable[[], _T], log: Log) -> None:
        """Read the files. Blocking. Raises ConfigurationError."""
        self._what, self._files, self._make, self._log = what, tuple(files), make, log
        self._seen = self._looks()
        self._said: str | None = None
        self.value = make()

    async def run(self) -> None:
        """Look once a second, until cancelled."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            try:
                await self._look()
            except ConfigurationError as error:
                self._refused(str(error))
            except RuntimeError as error:
                # No thread could be started; a pod may be allowed no more. The value that there is stays in use.
                self._refused(f"could not be looked at: {error}")

    async def _look(self) -> None:
        seen = await in_thread(self._looks, limiter=FILE_THREADS)
        if seen == self._seen and self._said is None:
            return
        self.value = await in_thread(self._make, limiter=FILE_THREADS)
        self._seen, self._said = seen, None
        self._log.info("webhook_file_read", what=self._what)

    def _refused(self, why: str) -> None:
        if self._said != why:
            self._log.error("webhook_file_refused", what=self._what, error=why)
        self._said = why

    def _looks(self) -> tuple[object, ...]:
        """Return what differs between two states of the files. A mounted Secret is reached through links, which are
        followed."""
        found: list[object] = []
        for path in self._files:
            try:
                status = os.stat(path)  # noqa: PTH116 - through links, as Path.stat, without a Path's cost
                found.append((status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size))
            except OSError as error:
                found.append(error.errno)
        return tuple(found)
