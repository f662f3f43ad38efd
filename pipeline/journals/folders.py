"""The folders of live journals, looked at again only where something has changed.

A folder tells when an entry last came into it or went, so that a look costs what has come since the look before, not
what is there. Not every file system's folders do: those of the others are listed each time. Hidden folders, such as
those of copies that are not complete, are passed over, as Spark does. Invariant: every file is returned once, as soon
as it has its name, unless its file system fails.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..tables.storage import Storage

HIDDEN = (".", "_")


class _Folder(NamedTuple):
    """modified: when its last listing began, and the one before: of two alike the second has missed nothing, however
    coarse the clock."""

    modified: tuple[int | None, int | None]
    files: frozenset[str]
    folders: tuple[str, ...]


class Folders:
    """The files with such names below some folders. named: patterns of fnmatch."""

    def __init__(self, storage: Storage, named: Collection[str]) -> None:
        self._storage, self._named = storage, named
        self._known: dict[str, _Folder] = {}

    def fresh(self, roots: Sequence[str]) -> list[str]:
        """Return the paths of the files that came since the last call; of all of them the first time."""
        found: list[str] = []
        known, waiting = {}, list(roots)
        while waiting:
            path = waiting.pop()
            if path in known:
                continue
            now = known[path] = self._look(path)
            before = self._known.get(path)
            found += now.files if before is None else now.files - before.files
            waiting += now.folders
        self._known = known
        return sorted(found)

    def _look(self, path: str) -> _Folder:
        before = self._known.get(path)
        modified = self._storage.folder_modified(path)
        if before is not None and modified is not None and before.modified == (modified, modified):
            return before
        files, folders = self._storage.entries(path)
        return _Folder(
            (modified, None if before is None else before.modified[0]),
            frozenset(one for one in files if self._is_named(one)),
            tuple(one for one in folders if not one.rpartition("/")[2].startswith(HIDDEN)),
        )

    def _is_named(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        return any(fnmatchcase(name, pattern) for pattern in self._named)
