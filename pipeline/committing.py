"""Put files and directories into a table so that being killed at any moment loses nothing: on any Hadoop file system.

    stage: everything new is written below OUT/_staging/7    killed here: the next run removes it
    seal:  the list of moves is written, whole               from here on the next run finishes the moves
    apply: each staged file or directory takes its place, or that of the old one; the commit is counted in OUT/_commits;
           then list and stage are removed

Invariant: what is staged exists until it is in place, so `apply` may be repeated from any point. One writer at a time
per OUT (`sole_writer`), each below the number of its own turn: one that had stopped for a minute, or whose JVM outlives
it for a moment, writes nothing among what its successor stages. Readers list files while there is no list of moves,
and once more if the count has risen meanwhile (`settled`): they see all of a commit or nothing of it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .storage import Storage

STAGING = "_staging"
SEAL = "_seal.json"
COMMITS = "_commits"


def begin(storage: Storage, *, turn: int) -> str:
    """Finish or undo what a killed run left; return where to stage, which is not there yet."""
    if storage.exists(storage.under(STAGING, SEAL)):
        _apply(storage)
    storage.remove(storage.under(STAGING))
    return storage.under(STAGING, str(turn))


def commit(storage: Storage, moves: Sequence[tuple[str, str]], *, turn: int) -> None:
    """Put what is staged in place: (below the stage, below the root). Only for who is the sole writer."""
    staged = [(f"{turn}/{below}", target) for below, target in moves]
    storage.write_text(storage.under(STAGING, SEAL), json.dumps(staged))
    _apply(storage)
    storage.remove(storage.under(STAGING))


def _apply(storage: Storage) -> None:
    for staged, target in json.loads(storage.read_text(storage.under(STAGING, SEAL))):
        storage.move(storage.under(STAGING, staged), storage.under(target))
    storage.replace_text(storage.under(COMMITS), str(1 + (_counted(storage) or 0)))


def commits(storage: Storage) -> int | None:
    """Return how many there were; None while one is being put in place."""
    return None if storage.exists(storage.under(STAGING, SEAL)) else _counted(storage)


def _counted(storage: Storage) -> int | None:
    path = storage.under(COMMITS)
    text = storage.read_text(path) if storage.exists(path) else "0"
    # Where a file cannot be replaced at once it is empty for a moment.
    return int(text) if text else None
