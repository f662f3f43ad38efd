"""Replaces quotas.toml as a whole: a sidecar that watches it never sees half of it.

Blocking. Knows not what was changed. Invariant: the file is either as it was or as it shall be, with the mode and owner
it had; what `check` refuses is never written.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from typing import TYPE_CHECKING

from .errors import ConfigurationError
from .quotas import parse_quotas

if TYPE_CHECKING:
    from pathlib import Path

_NEW_FILE_MODE = 0o644
_MOST_LINKS = 40
"""As Linux follows."""
_CONFIG_MAP_LINK = "..data"
"""Kubernetes mounts a ConfigMap's files as links through a link of this name, which it swaps."""


def save_quotas(path: Path, text: str) -> None:
    """Write `text` to `path` by one rename; a link is followed.

    Raises:
        ConfigurationError: `check` would refuse the text, the file is a ConfigMap's, or it cannot be written; what to
            do instead is in the message.
    """
    parse_quotas(text.encode(), source=str(path))
    if any(_CONFIG_MAP_LINK in part.parts for part in (path, *_links(path))):
        raise ConfigurationError(
            f"{path}: is mounted from a ConfigMap, which only Kubernetes changes: kubectl edit configmap"
        )
    target = path.resolve()
    try:
        _replace(target, text)
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be replaced: {error.strerror or error}: its directory has to be writable, so that the"
            " file can be renamed into place (a read-only mount: change what it is mounted from)"
        ) from error


def _links(path: Path) -> list[Path]:
    """What a link points to, step by step."""
    found: list[Path] = []
    while path.is_symlink() and len(found) < _MOST_LINKS:
        path = path.parent / path.readlink()
        found.append(path)
    return found


def _replace(target: Path, text: str) -> None:
    before = target.stat() if target.exists() else None
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=target.parent, prefix=f".{target.name}.", delete=False
    ) as fresh:
        try:
            fresh.write(text)
            fresh.flush()
            os.fsync(fresh.fileno())
            if before is not None:
                # Root edits a file of the sidecar's user, who must still be able to read it.
                with contextlib.suppress(PermissionError):
                    os.fchown(fresh.fileno(), before.st_uid, before.st_gid)
            os.fchmod(fresh.fileno(), stat.S_IMODE(before.st_mode) if before else _NEW_FILE_MODE)
            os.replace(fresh.name, target)  # noqa: PTH105 - of an open file
        except BaseException:
            os.unlink(fresh.name)  # noqa: PTH108
            raise
