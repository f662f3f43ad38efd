"""quotas.toml on disk, and the last good quotas, on which a start falls back when quotas.toml is missing, empty or
wrong.

A process that ends while quotas.toml is bad (a typo in a ConfigMap, then out of memory) would otherwise never start
again, and with it replication would end. Kept as JSON around the text of the quotas, so that it is not taken for a
quotas.toml; with the SHA-256 of the text, so that half a file is none. Blocking: call it from a thread, or before the
loop starts.

Invariants: whatever is wrong with quotas.toml, from missing to misspelt, comes out as a `ConfigurationError` that names
it. A reader sees the whole old file or the whole new one. There is one kept file and at
most one that is being written, whichever process was ended in between.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ..config.settings import written_first
from ..errors import ConfigurationError
from ..files.reading import locked, read_bytes, refuse_silent
from ..quotas.reading import parse_quotas

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ..quotas.sections import QuotaFile


MAX_BYTES = 4 * 2**20
"""The longest quotas.toml that is read: lists of 300 000 partitions, which take a thread some seconds to parse."""
NOTHING_EXPECTED = "expected TOML, found nothing (a comment is enough to lift every quota)"
SCHEMA = 1
_ESCAPED = 2
"""The most that JSON lengthens the text: a newline or a quote takes two bytes. Longer content is not kept."""
_MAX_STATE_BYTES = _ESCAPED * MAX_BYTES + 4096
_WHAT_IT_IS = "The last good quotas of a throttle sidecar, for its next start. Not quotas.toml: edit that."


class _State(msgspec.Struct, frozen=True, kw_only=True):
    what: str = _WHAT_IT_IS
    schema: int
    saved_at: float
    sha256: str
    quotas: str
    starts: dict[str, float] = {}
    """The times from which values that count from a start have counted, in seconds since 1970
    (`quotas.rate_source`)."""


_STATE = msgspec.json.Decoder(_State)


class LastGood(NamedTuple):
    content: bytes
    quota_file: QuotaFile
    saved_at: float
    """The time at which this content was first kept, in seconds since 1970."""
    starts: Mapping[str, float] = {}


def load_last_good(path: Path) -> LastGood | None:
    """Return the quotas that were kept; None if none ever were.

    Raises ConfigurationError for whatever else cannot be used, down to a broken checksum.
    """
    state = _read(path)
    if state is None:
        return None
    content = state.quotas.encode()
    return LastGood(content, parse_quotas(content, source=str(path)), state.saved_at, state.starts)


class Kept(NamedTuple):
    """The file of last good quotas, beside its quotas.toml."""

    starts: Mapping[str, float] = {}
    """The time since which the file gives each value that counts from a start."""
    content: bytes | None = None
    """The text of the last good quotas; None: there are none."""


def kept(path: Path) -> Kept:
    """Return the last good quotas; nothing if they cannot be used, or if their disk hangs."""
    try:
        refuse_silent(path)
        state = _read(path)
    except ConfigurationError:
        return Kept()
    return Kept() if state is None else Kept(state.starts, state.quotas.encode())


def keep_last_good(path: Path, content: bytes, now: float, starts: Mapping[str, float] = {}) -> bool:
    """Keep `content`, good quotas, at `path`; whether that was necessary. `now`: seconds since 1970; `starts`: since
    when the file says what counts from a start.

    Raises OSError if the place cannot be written, ConfigurationError if something else than a file is there or
    another process has the lock and does not give it back.
    """
    if _keeps(path, content, starts):
        return False
    state = _State(
        schema=SCHEMA,
        saved_at=now,
        sha256=hashlib.sha256(content).hexdigest(),
        quotas=content.decode("utf-8"),
        starts=dict(starts),
    )
    written = msgspec.json.format(msgspec.json.encode(state), indent=1) + b"\n"
    if len(written) > _MAX_STATE_BYTES:
        raise ConfigurationError(f"{path}: expected at most {_MAX_STATE_BYTES} bytes to keep, found {len(written)}")
    with _being_written(path) as (descriptor, name):
        os.ftruncate(descriptor, 0)
        at = 0
        while at < len(written):  # a disk that fills takes a part of it, and tells the next write
            at += os.pwrite(descriptor, written[at:], at)
        os.fsync(descriptor)
        name.rename(path)
    return True


def _keeps(path: Path, content: bytes, starts: Mapping[str, float]) -> bool:
    try:
        kept = _read(path)
    except ConfigurationError:
        if path.is_dir():
            raise
        return False
    return kept is not None and kept.quotas.encode() == content and kept.starts == starts


def _read(path: Path) -> _State | None:
    """Return the kept text, if it is complete."""
    if not os.path.lexists(path):
        return None
    content = read_bytes(path, most_bytes=_MAX_STATE_BYTES)
    try:
        state = _STATE.decode(content)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: expected the last good quotas as they were kept: {error}") from error
    if state.schema != SCHEMA:
        raise ConfigurationError(f"{path}: schema: expected {SCHEMA}, found {state.schema}")
    if hashlib.sha256(state.quotas.encode()).hexdigest() != state.sha256:
        raise ConfigurationError(f"{path}: sha256: does not match the quotas")
    return state


@contextmanager
def _being_written(path: Path) -> Iterator[tuple[int, Path]]:
    """Open the temporary file that becomes `path`, locked: sidecars that share a quotas.toml share it as well."""
    name = written_first(path)
    while True:
        with locked(
            name, not_done="the last good quotas are not kept", takes="to keep them takes milliseconds"
        ) as found:
            if _is_still(found, name):
                yield found, name
                return


def _is_still(descriptor: int, name: Path) -> bool:
    """Return False if the lock's former holder has renamed the file."""
    try:
        return os.path.samestat(os.fstat(descriptor), name.lstat())
    except FileNotFoundError:
        return False


class WrittenQuotas(NamedTuple):
    """A good quotas.toml, as it is written and as it is understood."""

    content: bytes
    quota_file: QuotaFile


def read_quotas_file(path: Path) -> WrittenQuotas:
    """Read and parse quotas.toml. Raises ConfigurationError if the file is missing, unreadable or wrong."""
    content = read_bytes(path, most_bytes=MAX_BYTES)
    if not content.strip():
        # An editor has truncated the file and not written it yet. Read as quotas, it would lift every quota.
        raise ConfigurationError(f"{path}: {NOTHING_EXPECTED}")
    return WrittenQuotas(content, parse_quotas(content, source=str(path)))


def load_quotas_file(path: Path) -> QuotaFile:
    """Read only the meaning of the quotas, for a caller that must not wait for a disk that hangs: such a disk is a
    ConfigurationError, too."""
    refuse_silent(path)
    return read_quotas_file(path).quota_file
