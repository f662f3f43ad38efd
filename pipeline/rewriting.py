"""Tables that are there, written anew in part: alone, and as one commit.

Knows who writes and how it is put in place, not what is written. Invariant: what a killed writer left is put in place,
or undone, before anything is looked at.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from .committing import begin, commit, remove_replaced
from .sole_writer import sole_writer
from .staging import Staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .committing import Move
    from .tables import Tables


@contextmanager
def rewriting(
    tables: Tables, *, tell: Callable[[str], None], keep_seconds: int | None = None
) -> Iterator[tuple[Staging, list[Move]]]:
    """Where to stage, and the moves, which are the commit when the block ends. Raises InputError if there are no
    tables, or somebody else took over.

    keep_seconds: how long what is replaced stays from now on; None: as long as before.
    """
    if not tables.has_layout():
        tables.require()
    with sole_writer(tables.storage, tell=tell) as turn:
        staging = Staging(tables, begin(turn))
        tables.require().take_over()
        remove_replaced(turn, keep_seconds=keep_seconds)
        moves: list[Move] = []
        yield staging, moves
        if moves:
            commit(turn, moves)
