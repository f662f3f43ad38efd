"""Lists tables while somebody else writes them, so that either all files of a commit are seen or none.

Invariant: what is returned was listed while no commit was being put in place. If a commit is half in place and nobody
will finish it, that is an error: nothing is answered from half of it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from .committing import commits
from .errors import InputError
from .sole_writer import LOOK_SECONDS, Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from .storage import Storage


Found = TypeVar("Found")


def settled(storage: Storage, listing: Callable[[], Found], *, sleep: Callable[[float], None] = time.sleep) -> Found:
    """Return what `listing` returns, which lists files of these tables, once no commit comes in between.

    Raises InputError if a writer ended while it put a commit in place.
    """
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
                continue
            if commits(storage) == before:
                return found
            continue
        _, writer = watch.look()
        if writer is None and commits(storage) is None:
            raise InputError(
                f"{storage.root}: an ingest ended while it put its rows in place, so that half of them may be there:"
                " run `python -m pipeline ingest` or `stream` into it once more, which finishes that"
            )
        sleep(LOOK_SECONDS)
