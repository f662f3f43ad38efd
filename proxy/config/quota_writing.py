"""Replaces the quotas on somebody's behalf: validated as ``check`` does, written by the same rename, audited.

Where the file is mounted from a ConfigMap it cannot be written: then the quotas hold from memory until the mount shows
them (`pushed_quotas`). Files are read and written in a thread. Invariant: what is replaced has the hash that was
expected, and is in force when `write` returns.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from ..errors import ConfigurationError
from ..files.reading import read_bytes
from ..files.replacement import edit_file, refuse_config_map
from ..quotas import advise, hash_of, parse_quotas
from ..threads import in_thread
from .quota_file import NOTHING_EXPECTED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from ..logs.log import Log
    from ..quotas import QuotaFile
    from .reload import QuotaWatch, ReloadOutcome


WRITING_THREADS = trio.CapacityLimiter(2)
"""Whoever asks again and again while the disk hangs takes no thread from keys, tokens or the watch of the file."""
SOURCE = "PUT /quotas"
"""Names the source in messages about quotas that came over HTTP."""


class StaleError(Exception):
    """The quotas in force are not those that the request meant to replace. `found` is the hash of those in force."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"expected to replace quotas {expected}, found {found}: read them, and try again")
        self.found = found


class RefusedWriteError(Exception):
    """`is_the_place`: the content is right, and cannot be written, or not be read back."""

    def __init__(self, problems: Collection[str], *, is_the_place: bool) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
        self.is_the_place = is_the_place


class Written(NamedTuple):
    before: bytes
    hash_before: str
    hash: str
    in_file: bool
    changes: Mapping[str, tuple[object, object]]
    warnings: Collection[str]


class QuotaWriting:
    """Of one process."""

    def __init__(self, path: Path, watch: QuotaWatch, *, broker_id: int, log: Log) -> None:
        self._path = path
        self._watch = watch
        self._broker_id = broker_id
        self._log = log
        self._one_at_a_time = trio.Lock()

    async def read(self) -> tuple[bytes, str]:
        """Return the quotas as they are written, and their hash. Raises ConfigurationError: the file cannot be read."""
        pushed = self._watch.pushed.current
        content = (
            pushed.content if pushed is not None else await in_thread(read_bytes, self._path, limiter=WRITING_THREADS)
        )
        return content, hash_of(content)

    async def write(self, content: bytes, expected: str, *, superseded: Collection[str], peer: str) -> Written:
        """Put `content` in force in place of the quotas with the hash `expected`.

        Raises StaleError, RefusedWriteError: the quotas in force are those of before. Only where it could not be read
        back, which the error says, the file has changed.
        """
        quota_file = await self._parsed(content)
        async with self._one_at_a_time:
            try:
                mounted = await in_thread(_is_config_map, self._path, limiter=WRITING_THREADS)
                before, outcome = await (
                    self._push(content, quota_file, expected, superseded, peer)
                    if mounted
                    else self._replace(content, expected, peer)
                )
            except ConfigurationError as error:
                raise RefusedWriteError(error.problems, is_the_place=True) from error
        if outcome.error is not None:
            raise RefusedWriteError([f"the file is replaced, and not in force yet: {outcome.error}"], is_the_place=True)
        written = Written(
            before,
            hash_of(before),
            quota_file.hash,
            not mounted,
            outcome.changes,
            advise(quota_file, self._broker_id, self._watch.now()),
        )
        self._log.info(
            "quotas_put", peer=peer, hash=written.hash, hash_before=written.hash_before, in_file=written.in_file
        )
        return written

    async def _parsed(self, content: bytes) -> QuotaFile:
        if not content.strip():
            raise RefusedWriteError([f"{SOURCE}: {NOTHING_EXPECTED}"], is_the_place=False)
        try:
            return await in_thread(partial(parse_quotas, content, source=SOURCE), limiter=WRITING_THREADS)
        except ConfigurationError as error:
            raise RefusedWriteError(error.problems, is_the_place=False) from error

    async def _replace(self, content: bytes, expected: str, peer: str) -> tuple[bytes, ReloadOutcome]:
        def change(before: bytes) -> tuple[bytes, bytes]:
            if hash_of(before) != expected:
                raise StaleError(expected, hash_of(before))
            return content, before

        _, before = await in_thread(edit_file, self._path, change, limiter=WRITING_THREADS)
        return before, await self._watch.reload("put", peer=peer)

    async def _push(
        self, content: bytes, quota_file: QuotaFile, expected: str, superseded: Collection[str], peer: str
    ) -> tuple[bytes, ReloadOutcome]:
        before, found = await self.read()
        if found != expected:
            raise StaleError(expected, found)
        shown = hash_of(await in_thread(read_bytes, self._path, limiter=WRITING_THREADS))
        older = [*superseded, found, shown]
        return before, await self._watch.push(content, quota_file, older=older, peer=peer)


def _is_config_map(path: Path) -> bool:
    try:
        refuse_config_map(path)
    except ConfigurationError:
        return True
    return False
