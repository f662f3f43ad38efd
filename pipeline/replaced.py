"""Files that others took the place of: they stay for those who listed them before, and nobody lists them any more.

    OUT/_replaced.json    {"traffic/date=2026-11-21/broker=101": {"part-0.parquet": 1795250400}}

A job lists the files of a table once, when it begins, and reads them for as long as it takes. So a file is not removed
when others have its rows, but by whoever has the turn an hour later; until then this list, which changes with the
commit that replaces, tells which files of a directory count.

Invariant: between two commits the files that count have each row once. A file is off the list only once it is removed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .storage import Storage

REPLACED = "_replaced.json"
KEPT_SECONDS = 3600
"""After a file was replaced: as long a job may take after it has listed it."""
KEPT_FILES_SECONDS = 60
"""Of the table `files`, which each commit writes anew, and which is read at once."""

Replaced = dict[str, dict[str, int]]
"""By directory below the root: names of files, and when each was replaced, in seconds since 1970."""


def replaced_files(storage: Storage) -> Replaced:
    path = storage.under(REPLACED)
    if not storage.exists(path):
        return {}
    found: Replaced = json.loads(storage.read_text(path))
    return found


def living(storage: Storage, place: str, replaced: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return the paths below the root that together are the files of `place` that count: itself, if all of them do."""
    above = {one[:end] for one in replaced for end in range(len(one)) if one[end] == "/"}
    return _living(storage, place, replaced, above)


def _living(storage: Storage, place: str, replaced: Mapping[str, Mapping[str, int]], above: set[str]) -> list[str]:
    if place not in replaced and place not in above:
        return [place]
    gone = replaced.get(place, {})
    files = [f"{place}/{name}" for name in storage.files(storage.under(place)) if name not in gone]
    below = [f"{place}/{name}" for name in storage.directories(storage.under(place))]
    return files + [path for one in below for path in _living(storage, one, replaced, above)]


def with_files_below(replaced: Replaced, storage: Storage, place: str, *, now: float) -> Replaced:
    """Return the list with all files of `place` on it; those that are on it already keep their time."""
    found = dict(replaced)
    for path in storage.files_below(storage.under(place)):
        directory, _, name = f"{place}/{path}".rpartition("/")
        found[directory] = {name: int(now), **found.get(directory, {})}
    return found


def still_kept(replaced: Mapping[str, Mapping[str, int]], *, now: float) -> Replaced:
    """Return of the list what somebody may still read; directories of which nothing is, too."""
    return {place: _kept(place, names, now) for place, names in replaced.items()}


def _kept(place: str, names: Mapping[str, int], now: float) -> dict[str, int]:
    # Replaced in the future, by a clock that was ahead, is not of the last hour either.
    seconds = KEPT_FILES_SECONDS if place == "files" else KEPT_SECONDS
    return {name: at for name, at in names.items() if 0 <= now - at < seconds}
