"""Which files of a table count: now, and as of an earlier moment.

    OUT/traffic/date=2026-11-21/broker=101/t1795250000-part-0.parquet      added at 1795250000
    OUT/_replaced.json    {"since": 1795240000, "keep_seconds": 3600, "replaced":
                           {"traffic/date=2026-11-21/broker=101": {"t1795250000-part-0.parquet": 1795250400}}}

A job lists the files of a table once, when it begins, and reads them for as long as it takes. So a file is not removed
at the moment when other files replace it, but by the first writer that has its turn after `keep_seconds` (an hour by
default). Until then this list, which changes in the same commit, says which files of a directory no longer count. A
file's name says when it was added. So name and list together say which files counted at any moment from `since` on.

Invariant: between two commits the files that count have each row once. A file is off the list only once it is removed,
and is removed only once `since` says that no earlier moment can be asked for.
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
"""How long a replaced file is kept, unless an operator sets another time. A job may take that long to read the files
that it has listed."""
KEPT_FILES_SECONDS = 60
"""The same for the table `files`: each commit writes it anew, and a job reads it as soon as it has listed it."""
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
    """Tell whether a file of that name counts, or counted `as_of` a moment; None is now. A file whose name does not say
    when it was added counts as having always been there."""
    if as_of is None:
        return replaced_at is None
    match = _ADDED.match(name)
    return (match is None or int(match[1]) <= as_of) and (replaced_at is None or replaced_at > as_of)


def living(storage: Storage, place: str, places: Mapping[str, Mapping[str, int]], as_of: int | None) -> list[str]:
    """Return the paths below the root of all files in `place` that count; if all of them do, only `place` itself."""
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
    """Return the list with only those files that a job may still be reading. `since` moves on: without the files that
    are left out, the tables cannot be read as of an earlier moment."""
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
    # A file that was replaced "in the future", by a clock that was ahead, is not kept: it would stay for too long.
    seconds = KEPT_FILES_SECONDS if place == "files" else keep_seconds
    return {name: at for name, at in names.items() if 0 <= now - at < seconds}
