"""Finds out whether a file is mounted alone; such a file never changes here. Kubernetes (`subPath`) and Docker mount
the inode that the file has at that moment; an editor outside puts another inode in its place, which is not mounted.

Knows Linux' mountinfo, nothing of what is in the file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_MOUNTINFO = Path("/proc/self/mountinfo")
_MOUNT_POINT = 4
"""The fifth field; see proc_pid_mountinfo(5)."""
_ESCAPED = re.compile(r"\\([0-7]{3})")


def is_mounted_alone(path: Path, mountinfo: Path = _MOUNTINFO) -> bool:
    """Return True if `path` itself is a mount point. Blocking; False if the kernel does not say."""
    try:
        lines = mountinfo.read_bytes().decode(errors="surrogateescape").splitlines()
    except OSError:
        return False
    place = os.path.realpath(path)
    return any(_mount_point(line) == place for line in lines)


def _mount_point(line: str) -> str:
    """Return the path, in which mountinfo writes spaces, tabs, newlines and backslashes in octal."""
    return _ESCAPED.sub(lambda code: chr(int(code[1], 8)), line.split()[_MOUNT_POINT])
