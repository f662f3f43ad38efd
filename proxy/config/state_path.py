"""Where the last good quotas are kept (`proxy.quota_files.last_good`), unless proxy.toml says it.

Invariant: they never take the place of the operator's own file.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..files.reading import silent

if TYPE_CHECKING:
    from collections.abc import Mapping


def state_beside(quotas_path: Path) -> Path:
    """Return where the last good quotas are kept unless proxy.toml or a service manager says otherwise."""
    return quotas_path.parent / f".{quotas_path.name}.last-good"


def state_place(quotas_path: Path, environ: Mapping[str, str]) -> Path:
    """Return the path, a service manager's word being heard: systemd names a unit's ``StateDirectory=`` in
    STATE_DIRECTORY, with colons between several (systemd.exec(5)), and may have left the unit nothing else that it can
    write."""
    folder = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    return Path(folder) / f"{quotas_path.name}.last-good" if folder else state_beside(quotas_path)


def written_first(path: Path) -> Path:
    """Return the file beside `path` that becomes it once it is whole."""
    return path.parent / f"{path.name}.new"


def overwrites(path: Path, other: Path) -> str | None:
    """Return which file would take the place of `other`, were the last good quotas kept at `path`; None if none would.

    However both are spelt, relatively or through links. None too if a disk hangs: a start must not hang with it.
    """
    if silent([path, other]):
        return None
    # A path with a zero byte in it leads nowhere, as whoever opens it says.
    with suppress(ValueError):
        place = os.path.realpath(other)
        return next((str(each) for each in (path, written_first(path)) if os.path.realpath(each) == place), None)
    return None
