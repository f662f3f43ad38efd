"""A user for whom a directory is closed, in this process."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOBODY = 65534


@contextmanager
def open_folder() -> Iterator[Path]:
    """Yield a folder that every user may enter, other than pytest's."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def closed(directory: Path) -> Iterator[None]:
    """Keep this process out of the directory. Root enters every directory, so it becomes another user meanwhile."""
    before, is_root = directory.stat().st_mode, os.geteuid() == 0
    directory.chmod(0)
    if is_root:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        directory.chmod(before)
