"""Keeps the last good quotas on disk. It writes after the reloads, which never wait for it.

Trio's side of `quota_file`. Invariant: a place that cannot be written costs a counter and one log line, and is tried
again. The newest good quotas are kept; older ones that were in force only shortly may be left out.
"""

from __future__ import annotations

import errno
import math
from collections import Counter
from typing import TYPE_CHECKING

import trio

from ..errors import ConfigurationError
from ..threads import in_thread
from .quota_file import keep_last_good

if TYPE_CHECKING:
    from pathlib import Path

    from ..logs.log import Log
    from .reload import QuotaWatch

MIN_PAUSE_SECONDS = 1.0
"""The pause between two writes, so that quotas that change 20 times a second do not wear out a disk."""
RETRY_SECONDS = 10.0
"""The pause after a write that failed, unless the quotas change before."""

WRITE_SECONDS = 60.0
"""A disk that takes longer is one that hangs."""


class LastGoodKeeper:
    """Writes the last good quotas to disk after each reload.

    `writes` counts by outcome, ``written`` and ``failed``; `error`: why the last write failed, None if it did not.
    """

    def __init__(self, state: Path, watch: QuotaWatch, log: Log) -> None:
        self.writes: Counter[str] = Counter()
        self.error: str | None = None
        self._state = state
        self._watch = watch
        self._log = log
        self._threads = trio.CapacityLimiter(1)
        """A limiter of one thread. While a disk hangs, no second write waits beside the first, and none that comes late
        overwrites newer quotas."""

    async def run(self) -> None:
        """Write the quotas after each reload, until cancelled."""
        content = None
        while True:
            with trio.move_on_after(math.inf if self.error is None else RETRY_SECONDS):
                content = await self._watch.wait_good(content)
            await self._keep(content)
            await trio.sleep(MIN_PAUSE_SECONDS)

    async def _keep(self, content: bytes | None) -> None:
        if content is None:
            return
        try:
            written = await self._written(content)
        except (OSError, ValueError) as error:  # a zero byte in the path is the second
            said = error.strerror if isinstance(error, OSError) else None
            self._failed(f"{self._state}: cannot be written: {said or error}")
        except ConfigurationError as error:
            self._failed(str(error))
        else:
            self.writes["written"] += written
            self.error = None

    async def _written(self, content: bytes) -> bool:
        """Write `content` if it is not there already; return whether it was written. Raises what `keep_last_good` does,
        and TimeoutError."""
        with trio.move_on_after(WRITE_SECONDS):
            now, starts = self._watch.now().timestamp(), dict(self._watch.starts.kept)
            return await in_thread(keep_last_good, self._state, content, now, starts, limiter=self._threads)
        raise TimeoutError(errno.ETIMEDOUT, f"no answer within {WRITE_SECONDS:g} s")

    def _failed(self, error: str) -> None:
        self.writes["failed"] += 1
        if error != self.error:
            self._log.warning("quotas_save_failed", error=error)
        self.error = error
