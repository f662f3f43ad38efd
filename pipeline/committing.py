"""Put files and directories into a table so that being killed at any moment loses nothing: on any Hadoop file system.

    stage: everything new is written below OUT/_staging/7    killed here: the next run removes it
    seal:  the list of moves is written, whole               from here on the next run finishes the moves
    apply: each staged file is moved into its place, under a name that says when it was added; so is the list of the
           files that no longer count (`replaced`); the commit is counted in OUT/_commits; then the list of moves and
           the stage of this turn are removed

Invariant: what is staged exists until it is in place, so `apply` may be repeated from any point. There is one writer at
a time per OUT (`sole_writer`), and each stages below the number of its own turn. A writer that had stopped for a
minute, or whose JVM outlives it for a moment, therefore writes nothing among the files that its successor stages. Nor
does it remove any: before each step it makes sure that the turn is still its own, and at the end it removes only what
is of its turn. Once it has been taken over, its successor finishes what it had sealed and undoes what it had not.
Readers list files only while there is no list of moves, and list them once more if the count of commits has risen
meanwhile (`settled`): so they see all of a commit or nothing of it.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from py4j.protocol import Py4JJavaError

from .errors import InputError
from .replaced import REPLACED, added, replaced_files, still_kept, with_files_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .replaced import Replaced
    from .sole_writer import Turn
    from .storage import Storage

STAGING = "_staging"
SEAL = "_seal.json"
COMMITS = "_commits"


class Move(NamedTuple):
    staged: str
    """Below the stage."""
    target: str
    """Below the root."""
    takes_place: bool = False
    """`staged` is a directory, and its files replace all files that are in `target` now."""


def begin(turn: Turn) -> str:
    """Finish or undo what a killed run left; return where to stage, which is not there yet. Raises InputError if
    somebody else took over."""
    storage = turn.storage
    if storage.exists(storage.under(STAGING, SEAL)):
        _apply(turn)
    turn.still_holds()
    storage.remove(storage.under(STAGING))
    return storage.under(STAGING, str(turn.number))


def commit(turn: Turn, moves: Sequence[Move], *, now: float | None = None) -> None:
    """Put what is staged in place. Raises InputError if somebody else took over. now: seconds since 1970."""
    storage, number = turn.storage, turn.number
    before, at = replaced_files(storage), int(time.time() if now is None else now)
    places = before.places
    sealed = []
    for move in moves:
        names = [""]
        if move.takes_place:
            names = [f"/{name}" for name in storage.files_below(storage.under(STAGING, str(number), move.staged))]
            places = with_files_below(places, storage, move.target, at=at)
        sealed += [(f"{number}/{move.staged}{name}", added(f"{move.target}{name}", at)) for name in names]
    if places != before.places:
        sealed.append(_staged_list(turn, before._replace(places=places)))
    _commit(turn, sealed)


def remove_replaced(turn: Turn, *, keep_seconds: int | None = None, now: float | None = None) -> None:
    """Remove files that were replaced so long ago that nobody reads them any more. A writer calls this at the beginning
    of its turn.

    keep_seconds: how long replaced files stay from now on; None: as long as before. now: seconds since 1970.
    """
    storage = turn.storage
    before = replaced_files(storage)
    keep_seconds = before.keep_seconds if keep_seconds is None else keep_seconds
    kept = still_kept(before._replace(keep_seconds=keep_seconds), now=time.time() if now is None else now)
    if kept == before:
        return
    if kept.since != before.since:
        # Nobody may ask for a moment of which files are missing, while they are removed or after a kill there.
        _commit(turn, [_staged_list(turn, kept._replace(places=before.places))])
    turn.still_holds()
    for place, names in before.places.items():
        for name in names.keys() - kept.places.get(place, {}).keys():
            storage.remove(storage.under(place, name))
        if not storage.names(storage.under(place)):
            storage.remove(storage.under(place))
    _commit(turn, [_staged_list(turn, kept)])


def _staged_list(turn: Turn, replaced: Replaced) -> tuple[str, str]:
    staged = f"{turn.number}/{REPLACED}"
    turn.storage.write_text(turn.storage.under(STAGING, staged), replaced.text)
    return staged, REPLACED


def _commit(turn: Turn, sealed: Sequence[tuple[str, str]]) -> None:
    storage, seal, text = turn.storage, turn.storage.under(STAGING, SEAL), json.dumps(sealed)
    turn.still_holds()
    storage.write_text(seal, text)
    try:
        turn.still_holds()
    except InputError:
        # Whoever took over may have begun already, and undone what is staged: then nobody would finish this list.
        _unseal(storage, seal, text)
        raise
    # From here on whoever takes over finds the list, and finishes it.
    _apply(turn)
    turn.still_holds()
    _unseal(storage, seal, text)
    storage.remove(storage.under(STAGING, str(turn.number)))
    storage.remove_if_empty(storage.under(STAGING))


def _unseal(storage: Storage, seal: str, text: str) -> None:
    """Remove the list of moves if it is this one; another one is somebody else's."""
    with suppress(Py4JJavaError):
        if storage.exists(seal) and storage.read_text(seal) == text:
            storage.remove(seal)


def _apply(turn: Turn) -> None:
    storage = turn.storage
    for staged, target in json.loads(storage.read_text(storage.under(STAGING, SEAL))):
        turn.still_holds()
        storage.move(storage.under(STAGING, staged), storage.under(target))
    turn.still_holds()
    storage.replace_text(storage.under(COMMITS), str(1 + (_counted(storage) or 0)))


def commits(storage: Storage) -> int | None:
    """Return how many commits there were; None while one is being put in place."""
    return None if storage.exists(storage.under(STAGING, SEAL)) else _counted(storage)


def _counted(storage: Storage) -> int | None:
    path = storage.under(COMMITS)
    text = storage.read_text(path) if storage.exists(path) else "0"
    # Some file systems cannot replace a file in one step: a reader may find it empty for a moment.
    return int(text) if text else None
