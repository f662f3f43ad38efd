"""Extended attributes of files: an access control list above all, which says who may read a file besides its mode.

Blocking. Knows no file's content. Invariant: afterwards the new file has the attributes of the old one or the error
says which it has not; where the platform or the filesystem has none, nothing is done.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

_ACCESS_LISTS = ("system.posix_acl_access", "system.nfs4_acl")
"""They decide over access together with the mode. Other names of `system.` and `security.` are the kernel's own to
give."""
_USERS_OWN = "user."
_NONE_HERE = (errno.ENOTSUP, errno.ENOSYS)


def copy_attributes(old: Path, new: int) -> None:
    """Give the file that is open as `new` the access control list of `old`, and the attributes that users have set. A
    list that only the new file has (the directory's default) is taken away.

    Raises ConfigurationError if one cannot be copied. OSError: they cannot be read.
    """
    if not hasattr(os, "listxattr"):
        return
    wanted, present = _attributes(old), _attributes(new)
    try:
        for name in present.keys() - wanted.keys():
            os.removexattr(new, name)
        for name, value in wanted.items():
            if present.get(name) != value:
                os.setxattr(new, name, value)
    except OSError as error:
        raise ConfigurationError(
            f"{old}: cannot be replaced: the new file would not have its {_in_words(name)}: {error.strerror or error};"
            " run this as root, or edit the file in place"
        ) from error


def _attributes(file: Path | int) -> dict[str, bytes]:
    """Return those that are copied."""
    try:
        names = os.listxattr(file)
    except OSError as error:
        if error.errno in _NONE_HERE:
            return {}
        raise
    return {name: os.getxattr(file, name) for name in names if name in _ACCESS_LISTS or name.startswith(_USERS_OWN)}


def _in_words(name: str) -> str:
    return f"access control list ({name})" if name in _ACCESS_LISTS else f"extended attribute {name}"
