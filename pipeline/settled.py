"""Lists tables while somebody else writes them, so that either all files of a commit are seen or none.

Beside a writer that commits again and again, listing might never come to an end: after some tries it takes a turn as
writer would, in which nobody commits.

Invariant: what is returned was listed while no commit was being put in place. If a commit is half in place and nobody
will finish it, that is an error: nothing is answered from half of it.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from .committing import commits
from .errors import InputError
from .sole_writer import LOOK_SECONDS, Watch, sole_writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from .storage import Storage


Found = TypeVar("Found")


TRIES = 10
"""Of a listing, before it takes a turn as writer."""


def settled(
    storage: Storage,
    listing: Callable[[], Found],
    *,
    tell: Callable[[str], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Found:
    """Return what `listing` returns, which lists files of these tables, once no commit comes in between.

    Raises InputError if a writer ended while it put a commit in place.
    """
    with ExitStack() as turn:
        for _ in range(TRIES):
            found = _unless_committed(storage, listing, sleep)
            if found is not None:
                return found[0]
        tell(
            f"{storage.root}: a commit came each of {TRIES} times while files were listed: waiting for a turn as writer"
        )
        try:
            turn.enter_context(sole_writer(storage, tell=tell, sleep=sleep))
            if commits(storage) is None:
                # The writer before ended within a commit, and the next one finishes it.
                turn.close()
        except (InputError, Py4JJavaError, OSError):
            tell(f"{storage.root}: may not be written here, so files are listed until no commit comes in between")
        while True:
            found = _unless_committed(storage, listing, sleep)
            if found is not None:
                return found[0]


def _unless_committed(
    storage: Storage, listing: Callable[[], Found], sleep: Callable[[float], None]
) -> tuple[Found] | None:
    """Wait until no commit is being put in place, then list once; None if a commit came in between."""
    watch = Watch(storage)
    while True:
        before = commits(storage)
        if before is not None:
            try:
                found = listing()
            except (PySparkException, Py4JJavaError):
                # A file that was listed may be gone since, if a commit came in between.
                if commits(storage) == before:
                    raise
                return None
            return (found,) if commits(storage) == before else None
        _, writer = watch.look()
        if writer is None and commits(storage) is None:
            raise InputError(
                f"{storage.root}: an ingest ended while it put its rows in place, so that half of them may be there:"
                " run `python -m pipeline ingest` or `stream` into it once more, which finishes that"
            )
        sleep(LOOK_SECONDS)
