"""A control group of a node's own, below which its kubelet makes those of pods. Version 1 and version 2 of them.

Invariant: when `remove` returns, the group is gone from every hierarchy; nothing else was touched.
"""

from __future__ import annotations

import time
from pathlib import Path

from ..errors import LabError

_ROOT = Path("/sys/fs/cgroup")
_PATIENCE_SECONDS = 10.0


class ControlGroup:
    """Args: name: of the group, right below the root."""

    def __init__(self, name: str) -> None:
        self.path = f"/{name}"
        self._places = [hierarchy / name for hierarchy in _hierarchies()]

    def make(self) -> None:
        """Make the control groups. Raises LabError."""
        for place in self._places:
            try:
                place.mkdir(exist_ok=True)
            except OSError as error:
                raise LabError(f"a control group cannot be made: {error}") from error

    def remove(self) -> None:
        """Remove the control groups once their processes have been killed, which takes the kernel a while to notice.

        Raises LabError.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while left := [place for place in self._places if not _removed(place)]:
            if time.monotonic() > deadline:
                raise LabError(f"control groups that are still in use: {', '.join(map(str, left))}")
            time.sleep(0.05)


def _hierarchies() -> list[Path]:
    """Return the hierarchy of each controller, or the one of version 2."""
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return [path for path in sorted(_ROOT.iterdir()) if path.is_dir() and not path.is_symlink()]


def _removed(place: Path) -> bool:
    if not place.exists():
        return True
    groups = [path for path in place.rglob("*") if path.is_dir()]
    for group in [*sorted(groups, key=lambda path: len(path.parts), reverse=True), place]:
        try:
            group.rmdir()
        except OSError:
            return False
    return True
