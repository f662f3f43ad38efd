"""The file that keeps a sidecar's overrides for its next start, written from memory, and a copy beside it.

    overrides-101.json            {"schema", "sha256", "overrides"}, in the order in which they were made
    overrides-101.json.copy       the same, written next: it counts where the first is lost or damaged
    overrides-101.json.damaged    the file that a start could not read, kept for the operator

Blocking. Invariants: after a crash at any moment, power included, the file holds the overrides before a change or those
after it; it needs no links, and belongs to the owner of its directory, whoever writes it.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ..errors import ConfigurationError
from ..files.reading import read_bytes, refuse_silent
from ..quotas.override import Override, layer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ..quotas.sections import Layer

SCHEMA = 1
MAX_BYTES = 2**20
_ROOM_BYTES = 2 * 2**20
"""The free space below which a disk counts as full: room for the longest store and its copy."""


class _File(msgspec.Struct, frozen=True):
    schema: int
    sha256: str
    overrides: msgspec.Raw


_FILE = msgspec.json.Decoder(_File)
_OVERRIDES = msgspec.json.Decoder(tuple[Override, ...])


class Loaded(NamedTuple):
    overrides: tuple[Override, ...] = ()
    """The overrides in the order in which they were made."""
    layers: Mapping[str, Layer] = {}
    """The layer of each override, by id."""
    problem: str | None = None
    """The problem of the file, ready to print; `overrides` are then those of the copy, or none."""
    found: bool = False
    """True if there is a file, or a copy."""


NOTHING_LOADED = Loaded()


def store_path(quotas_state: Path, broker_id: int) -> Path:
    """Return the path of the store: in the directory in which the last good quotas are kept."""
    return quotas_state.parent / f"overrides-{broker_id}.json"


def copy_path(path: Path) -> Path:
    """Return the path of the copy."""
    return path.with_name(f"{path.name}.copy")


def damaged_path(path: Path) -> Path:
    """Return the path to which a start moves a file that it could not read."""
    return path.with_name(f"{path.name}.damaged")


def load(path: Path, broker_id: int) -> Loaded:
    """Read the overrides. Never raises for a bad file: a start that failed would end replication."""
    problem = None
    for each in (path, copy_path(path)):
        try:
            refuse_silent(each)
            if os.path.lexists(each):
                return Loaded(*_read(each, broker_id), problem, found=True)
        except ConfigurationError as error:
            problem = problem or str(error)
    return Loaded(problem=problem, found=problem is not None)


def write(path: Path, overrides: Iterable[Override]) -> object:
    """Replace the store and its copy; return the new `stamp` of the file.

    Raises OSError; ConfigurationError if there are too many bytes.
    """
    body = msgspec.json.encode(tuple(overrides))
    content = msgspec.json.encode(_File(SCHEMA, hashlib.sha256(body).hexdigest(), msgspec.Raw(body))) + b"\n"
    if len(content) > MAX_BYTES:
        raise ConfigurationError(f"{path}: expected at most {MAX_BYTES} bytes of overrides, found {len(content)}")
    _replace(path, content)
    with suppress(OSError):  # the file itself is whole
        _replace(copy_path(path), content)
    return stamp(path)


def stamp(path: Path) -> object:
    """Return the identity of the file of this name; None if there is none. Raises OSError."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def set_aside(path: Path) -> None:
    """Move a file that cannot be read out of the way, for the operator to look at. Raises OSError."""
    with suppress(FileNotFoundError):
        path.rename(damaged_path(path))


def want_of_room(path: Path) -> str | None:
    """Return why nothing can be written there, as far as the file system tells. Raises OSError."""
    found = os.statvfs(path.parent)
    if found.f_flag & os.ST_RDONLY:
        return "read-only file system"
    free = (found.f_bfree if os.geteuid() == 0 else found.f_bavail) * found.f_frsize
    return None if free >= _ROOM_BYTES else f"disk full: {free // 1024} KiB left"


def _read(path: Path, broker_id: int) -> tuple[tuple[Override, ...], Mapping[str, Layer]]:
    """Read a file. Raises ConfigurationError for anything but a whole store."""
    content = read_bytes(path, most_bytes=2 * MAX_BYTES)
    try:
        found = _FILE.decode(content)
        if found.schema != SCHEMA:
            raise ConfigurationError(f"{path}: schema: expected {SCHEMA}, found {found.schema}")
        if hashlib.sha256(bytes(found.overrides)).hexdigest() != found.sha256:
            raise ConfigurationError(f"{path}: sha256: does not match the overrides")
        overrides = _OVERRIDES.decode(bytes(found.overrides))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: expected overrides as a sidecar stores them: {error}") from error
    return overrides, {each.id: layer_of(each, broker_id) for each in overrides}


def _replace(path: Path, content: bytes) -> None:
    """Replace a whole file. Raises OSError."""
    fresh, owner = path.with_name(f"{path.name}.new"), path.parent.stat()
    fresh.unlink(missing_ok=True)  # a crash's file may be another user's
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            if os.geteuid() == 0:
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
            stream.write(content)
            stream.flush()
            os.fsync(descriptor)
        fresh.rename(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)  # a half-written file would keep a full disk full
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
