"""Replaces the quotas when somebody asks over HTTP: checked as ``check`` does, written by the same rename, logged.

A file that is mounted from a ConfigMap cannot be written: then the quotas hold from memory until the mount shows them
(`pushed_quotas`). Files are read, hashed and written in threads. Invariant: quotas are replaced only if they have the
hash that the request expects, and the new ones are in force when `write` returns.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from ..errors import ConfigurationError
from ..files.reading import read_bytes
from ..files.replacement import edit_file, refuse_config_map
from ..quotas import advise, hash_of, parse_quotas
from ..quotas.whole_file import MOST_BYTES, NOTHING_EXPECTED
from ..threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from ..logs.log import Log
    from ..quotas import QuotaFile
    from .reload import QuotaWatch, ReloadOutcome


WRITING_THREADS = trio.CapacityLimiter(2)
"""Threads of their own: requests that pile up while the disk hangs take none from keys, tokens or the file's watch."""
SOURCE = "PUT /quotas"
"""Names the source in messages about quotas that came over HTTP."""


class StaleError(Exception):
    """The quotas in force are not those that the request meant to replace. `found` is the hash of those in force."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"expected to replace quotas {expected}, found {found}: read them, and try again")
        self.found = found


class RefusedWriteError(Exception):
    """`is_the_place`: the content is right, but it cannot be written there, or the file cannot be read back."""

    def __init__(self, problems: Collection[str], *, is_the_place: bool) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
        self.is_the_place = is_the_place


class _Hashed(NamedTuple):
    content: bytes
    hash: str


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
        self._seen: _Hashed | None = None
        """The file as it was read last. As long as it stays the same, it is hashed once, however often it is asked
        for."""

    async def read(self) -> _Hashed:
        """Return the quotas as they are written, and their hash. Raises ConfigurationError: the file cannot be read."""
        pushed = self._watch.pushed.current
        if pushed is not None:
            return _Hashed(pushed.content, pushed.quota_file.hash)
        return await in_thread(self._read, limiter=WRITING_THREADS)

    def _read(self) -> _Hashed:
        """Blocking."""
        content, seen = read_bytes(self._path, most_bytes=MOST_BYTES), self._seen
        if seen is None or seen.content != content:
            seen = self._seen = _Hashed(content, hash_of(content))
        return seen

    async def write(self, content: bytes, expected: str, *, superseded: Collection[str], peer: str) -> Written:
        """Put `content` in force in place of the quotas with the hash `expected`.

        Raises StaleError or RefusedWriteError; then the quotas in force are still the old ones. In one case, which the
        error names, the file has changed all the same: it was written and could not be read back.
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
            before.content,
            before.hash,
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

    async def _replace(self, content: bytes, expected: str, peer: str) -> tuple[_Hashed, ReloadOutcome]:
        def change(content_before: bytes) -> tuple[bytes, _Hashed]:
            before = _Hashed(content_before, hash_of(content_before))
            if before.hash != expected:
                raise StaleError(expected, before.hash)
            return content, before

        _, before = await in_thread(edit_file, self._path, change, limiter=WRITING_THREADS)
        return before, await self._watch.reload("put", peer=peer)

    async def _push(
        self, content: bytes, quota_file: QuotaFile, expected: str, superseded: Collection[str], peer: str
    ) -> tuple[_Hashed, ReloadOutcome]:
        before = await self.read()
        if before.hash != expected:
            raise StaleError(expected, before.hash)
        shown = await in_thread(self._read, limiter=WRITING_THREADS)
        older = [*superseded, before.hash, shown.hash]
        return before, await self._watch.push(content, quota_file, older=older, peer=peer)


def _is_config_map(path: Path) -> bool:
    try:
        refuse_config_map(path)
    except ConfigurationError:
        return True
    return False
