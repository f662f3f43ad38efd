"""Which files of a table count: now, and as of an earlier moment.

    OUT/traffic/date=2026-11-21/broker=101/t1795250000-part-0.parquet      added at 1795250000
    OUT/_replaced.json    {"since": 1795240000, "keep_seconds": 3600, "replaced":
                           {"traffic/date=2026-11-21/broker=101": {"t1795250000-part-0.parquet": 1795250400}}}

A job lists the files of a table once, when it begins, and reads them for as long as it takes. So a file is not removed
when others have its rows, but by whoever has the turn an hour later, or when else `keep_seconds` are over; until then
this list, which changes with the commit that replaces, tells which files of a directory count. As a file's name tells
when it was added, both together tell which ones did at any moment since `since`.

Invariant: between two commits the files that count have each row once. A file is off the list only once it is removed.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .storage import Storage

REPLACED = "_replaced.json"
KEPT_SECONDS = 3600
"""After a file was replaced, unless the tables are told otherwise: as long a job may take after it has listed it."""
KEPT_FILES_SECONDS = 60
"""Of the table `files`, which each commit writes anew, and which is read at once."""
_ADDED = re.compile(r"t(\d+)-")

Places = dict[str, dict[str, int]]
"""By directory below the root: names of files, and when each was replaced, in seconds since 1970."""


class Replaced(NamedTuple):
    since: int = 0
    """In seconds since 1970: the first moment as of which the tables can be read."""
    keep_seconds: int = KEPT_SECONDS
    places: Places = {}  # noqa: RUF012 - never changed: each change is another one

    @property
    def text(self) -> str:
        return json.dumps({"since": self.since, "keep_seconds": self.keep_seconds, "replaced": self.places})


def replaced_files(storage: Storage) -> Replaced:
    path = storage.under(REPLACED)
    if not storage.exists(path):
        return Replaced()
    found = json.loads(storage.read_text(path))
    return Replaced(found["since"], found["keep_seconds"], found["replaced"])


def added(target: str, at: int) -> str:
    """Return the path of a file as it is called from then on: with the second in which it was added."""
    *above, name = target.split("/")
    return "/".join([*above, f"t{at}-{name}"])


def counts(name: str, replaced_at: int | None, as_of: int | None) -> bool:
    """Tell whether a file of that name did; as_of: None is now. What is called otherwise was always there."""
    if as_of is None:
        return replaced_at is None
    match = _ADDED.match(name)
    return (match is None or int(match[1]) <= as_of) and (replaced_at is None or replaced_at > as_of)


def living(storage: Storage, place: str, places: Mapping[str, Mapping[str, int]], as_of: int | None) -> list[str]:
    """Return the paths below the root that together are the files of `place` that count: itself, if all of them do."""
    above = {one[:end] for one in places for end in range(len(one)) if one[end] == "/"}
    return _living(storage, place, places, above, as_of)


def _living(
    storage: Storage, place: str, places: Mapping[str, Mapping[str, int]], above: set[str], as_of: int | None
) -> list[str]:
    if as_of is None and place not in places and place not in above:
        return [place]
    gone = places.get(place, {})
    names = storage.files(storage.under(place))
    files = [f"{place}/{name}" for name in names if counts(name, gone.get(name), as_of)]
    below = [f"{place}/{name}" for name in storage.directories(storage.under(place))]
    return files + [path for one in below for path in _living(storage, one, places, above, as_of)]


def with_files_below(places: Places, storage: Storage, place: str, *, at: int) -> Places:
    """Return the list with all files of `place` on it; those that are on it already keep their time."""
    found = dict(places)
    for path in storage.files_below(storage.under(place)):
        directory, _, name = f"{place}/{path}".rpartition("/")
        found[directory] = {name: at, **found.get(directory, {})}
    return found


def still_kept(replaced: Replaced, *, now: float) -> Replaced:
    """Return of the list what somebody may still read, and since when the tables are known without the rest."""
    places = {place: _kept(place, names, replaced.keep_seconds, now) for place, names in replaced.places.items()}
    gone = [
        at
        for place, names in replaced.places.items()
        for name, at in names.items()
        if place != "files" and name not in places[place]
    ]
    since = max([replaced.since, *(min(at, int(now)) for at in gone)])
    return replaced._replace(since=since, places={place: names for place, names in places.items() if names})


def _kept(place: str, names: Mapping[str, int], keep_seconds: int, now: float) -> dict[str, int]:
    # Replaced in the future, by a clock that was ahead, is not of the last hour either.
    seconds = KEPT_FILES_SECONDS if place == "files" else keep_seconds
    return {name: at for name, at in names.items() if 0 <= now - at < seconds}
