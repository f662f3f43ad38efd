"""Replaces a small file as a whole: whoever reads it sees the old content or the new one, never half of it.

Blocking; for the commands that edit quotas.toml, or make one. Knows nothing of what is in the file. What cannot be
replaced by a rename (a ConfigMap, a read-only or single-file mount) is refused with what to do instead. Invariants:
mode, owner and access control list of the file stay; when two commands edit it at once, the second one edits what the
first one wrote.
"""

from __future__ import annotations

import errno
import os
import secrets
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..errors import ConfigurationError
from .attributes import copy_attributes
from .locking import LOCK_SECONDS, lock
from .reading import read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_T = TypeVar("_T")

_CONFIG_MAP = "..data"
"""The link that the kubelet swaps; names beginning with two dots are its own."""


def edit_file(path: Path, change: Callable[[bytes], tuple[bytes, _T]]) -> tuple[bytes, _T]:
    """Replace the content of `path` by what `change` makes of it; return the new content and the other
    result of `change`.

    Links are followed, the file they lead to is replaced. Raises ConfigurationError if the file cannot be read or
    replaced, naming it and what to do instead, and whatever `change` raises: then nothing has been written.
    """
    try:
        target = Path(os.path.realpath(path, strict=True))
        refuse_config_map(path)
        with _alone_in(target.parent):
            before = read_bytes(target)
            after, told = change(before)
            if after != before:
                _replace(target, after)
    except OSError as error:
        raise ConfigurationError(f"{path}: {_advice(error)}") from error
    return after, told


def create_file(path: Path, content: bytes) -> bool:
    """Make `path` with this content, all of it or nothing; False: it is there already, and stays as it is.

    A link that leads to nothing yet stays, and leads to the new file. Raises ConfigurationError.
    """
    try:
        target = Path(os.path.realpath(path))
        with _alone_in(target.parent):
            if target.exists():
                return False
            written = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
            # Unlike an edited file's, which stays, its mode is what the umask makes of new files: the sidecar may run
            # as another user.
            descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            with _in_place_of(target, written), os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror or error}") from error
    return True


def remove_file(path: Path, content: bytes) -> None:
    """Take back what `create_file` has made.

    Raises ConfigurationError if the file has another content meanwhile, which stays, or cannot be removed.
    """
    try:
        target = Path(os.path.realpath(path, strict=True))
        with _alone_in(target.parent):
            if read_bytes(target) != content:
                raise ConfigurationError(f"{path}: somebody else has changed it meanwhile: it is not removed")
            target.unlink()
            _sync(target.parent)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be removed: {error.strerror or error}") from error


def refuse_config_map(path: Path) -> None:
    """Raise ConfigurationError if `path`, which exists, is reached through the links of a Kubernetes volume."""
    if any(link.name == _CONFIG_MAP or _CONFIG_MAP in link.readlink().parts for link in _links(path)):
        raise ConfigurationError(
            f"{path}: is mounted from a Kubernetes ConfigMap (or Secret), which is edited in the cluster, not here: "
            f"kubectl edit configmap NAME, or edit a copy with --quotas COPY and then kubectl create configmap NAME "
            f"--from-file={path.name}=COPY --dry-run=client -o yaml | kubectl apply -f -; the sidecar has it when the "
            "kubelet has, usually within a minute"
        )


def _links(path: Path) -> Iterator[Path]:
    """Every link on the way to `path`."""
    absolute = path.absolute()
    for step in (*reversed(absolute.parents), absolute):
        if step.is_symlink():
            yield step
            yield from _links(step.parent / step.readlink() / absolute.relative_to(step))
            return


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Lock the directory. A lock on the file would not do, because each edit puts another file in its place.

    Raises ConfigurationError if another process has the lock for `LOCK_SECONDS`: anybody who may read the directory may
    take it.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        lock(
            descriptor,
            directory,
            seconds=LOCK_SECONDS,
            not_done="nothing is changed",
            takes="an edit takes milliseconds",
        )
        yield
    finally:
        os.close(descriptor)


def _replace(target: Path, content: bytes) -> None:
    status = target.stat()
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    with _in_place_of(target, Path(name)), os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fchmod(stream.fileno(), status.st_mode & 0o7777)
        copy_attributes(target, stream.fileno())
        own = os.fstat(stream.fileno())
        if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
            os.fchown(stream.fileno(), status.st_uid, status.st_gid)
        os.fsync(stream.fileno())


@contextmanager
def _in_place_of(target: Path, written: Path) -> Iterator[None]:
    """Rename `written` to `target` when the block is over, or remove it if the block fails."""
    try:
        yield
        written.rename(target)
    except BaseException:
        written.unlink(missing_ok=True)
        raise
    _sync(target.parent)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _advice(error: OSError) -> str:
    said = f"cannot be replaced: {error.strerror or error}"
    if error.errno == errno.ENOENT:
        return f"cannot be read: {error.strerror}"
    if error.errno == errno.EROFS:
        return f"{said}: the mount is read-only; edit the file where it is mounted from (the host, or the ConfigMap)"
    if error.errno == errno.EBUSY:
        return f"{said}: this one file is mounted by itself; mount its directory instead, or edit it on the host"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{said}: run this as the file's owner, who may also write to its directory"
    return said
