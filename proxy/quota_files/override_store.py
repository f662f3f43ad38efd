"""The file that keeps a sidecar's overrides: replaced as a whole at every change, with the generation before beside it.

    overrides-101.json           {"schema", "sha256", "overrides"}, in the order in which they were made
    overrides-101.json.before    the generation before

Blocking. Invariant: after a crash at any moment, power included, the file holds the overrides before a change or those
after it; a change takes its lock and begins with what is in it.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ..errors import ConfigurationError
from ..files.reading import locked, read_bytes, refuse_silent
from ..quotas.override import Override, layer_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = 1
MAX_OVERRIDES = 500
MAX_BYTES = 2**20


class _File(msgspec.Struct, frozen=True):
    schema: int
    sha256: str
    overrides: msgspec.Raw


_FILE = msgspec.json.Decoder(_File)
_OVERRIDES = msgspec.json.Decoder(tuple[Override, ...])


class Loaded(NamedTuple):
    overrides: tuple[Override, ...] = ()
    """The overrides in the order in which they were made."""
    problem: str | None = None
    """The problem of the newest generation, ready to print; `overrides` are then the generation before, or none."""


NOTHING_LOADED = Loaded()


def store_path(quotas_state: Path, broker_id: int) -> Path:
    """Return the path of the store: in the directory in which the last good quotas are kept."""
    return quotas_state.parent / f"overrides-{broker_id}.json"


def before_path(path: Path) -> Path:
    """Return the path of the generation before."""
    return path.with_name(f"{path.name}.before")


def load(path: Path, broker_id: int) -> Loaded:
    """Read the overrides. Never raises for what is wrong with the file: a start that failed would end replication."""
    try:
        refuse_silent(path)
        return Loaded(_read(path, broker_id))
    except ConfigurationError as error:
        problem = str(error)
    try:
        return Loaded(_read(before_path(path), broker_id), problem)
    except ConfigurationError:
        return Loaded((), problem)


def edit(
    path: Path, broker_id: int, change: Callable[[tuple[Override, ...]], tuple[Override, ...]]
) -> tuple[tuple[Override, ...], tuple[Override, ...]]:
    """Replace the overrides by what `change` makes of them; return those before and those after, which are on disk.

    Raises ConfigurationError, and whatever `change` raises: then nothing has been written.
    """
    try:
        lock = path.with_name(f"{path.name}.lock")
        with locked(lock, not_done="no override is changed", takes="a change takes milliseconds"):
            before = _read(path, broker_id)
            after = change(before)
            if after != before:
                _write(path, after)
    except OSError as error:
        raise ConfigurationError(f"{path}: overrides cannot be stored: {error.strerror or error}") from error
    return before, after


def _read(path: Path, broker_id: int) -> tuple[Override, ...]:
    """Read a store. Raises ConfigurationError for anything but a whole store or no store."""
    if not os.path.lexists(path):
        return ()
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
    for override in overrides:
        layer_of(override, broker_id)
    return overrides


def _write(path: Path, overrides: tuple[Override, ...]) -> None:
    """Replace the store. Raises OSError; ConfigurationError if there are too many."""
    if len(overrides) > MAX_OVERRIDES:
        raise ConfigurationError(
            f"{path}: expected at most {MAX_OVERRIDES} overrides, found {len(overrides)}: undo some"
        )
    body = msgspec.json.encode(overrides)
    content = msgspec.json.encode(_File(SCHEMA, hashlib.sha256(body).hexdigest(), msgspec.Raw(body))) + b"\n"
    if len(content) > MAX_BYTES:
        raise ConfigurationError(f"{path}: expected at most {MAX_BYTES} bytes of overrides, found {len(content)}")
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    if path.exists():
        before = before_path(path)
        before.unlink(missing_ok=True)
        os.link(path, before)
    fresh.rename(path)
    _sync(path.parent)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
