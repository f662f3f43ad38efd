"""Days of brokers that are many small files, written anew as one each, when somebody asks for it.

`ingest` adds files to a day, and writes it anew once it has `staging.MOST_FILES`; this does not wait for that, and
leaves alone what is one file or has large ones. Rows stay as they are. Invariant: all days of a run are one commit: the
next writer finishes it, or undoes it, wherever this one was killed (`committing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .rewriting import rewriting
from .scope import Scope
from .tables import DATED

if TYPE_CHECKING:
    from collections.abc import Callable

    from .tables import Tables

LARGE_BYTES = 64 * 2**20
"""Files of this size on average cost a job nothing that fewer would save: Spark reads 128 MiB at a time."""


class Compacted(NamedTuple):
    """What became of one table: how many days of brokers were written anew, and their files and bytes."""

    table: str
    days: int
    files_before: int
    files: int
    bytes_before: int
    bytes: int


def compact(
    tables: Tables,
    *,
    wanted: Callable[[], Scope] = Scope,
    tell: Callable[[str], None] = lambda _: None,
    keep_seconds: int | None = None,
) -> list[Compacted]:
    """Write anew the days within a scope that are many small files, as one commit. wanted: the scope, told when what a
    killed run left is in place. Raises InputError if there are no tables.

    keep_seconds: how long what is replaced stays from now on, whoever replaces it; None: as long as before.
    """
    done = []
    with rewriting(tables, tell=tell, keep_seconds=keep_seconds) as (staging, moves):
        scoped = tables.within(wanted())
        for name in DATED:
            before = {day: sizes for day, sizes in _days(scoped, name).items() if _is_small(sizes)}
            if before:
                tell(f"{name}: {len(before)} days of brokers")
                moves.extend(staging.together(name, sorted(before)))
            was = [size for sizes in before.values() for size in sizes]
            now = [size for day in before for size in tables.storage.sizes(f"{staging.stage}/{name}/{day}").values()]
            done.append(Compacted(name, len(before), len(was), len(now), sum(was), sum(now)))
    return done


def _days(tables: Tables, name: str) -> dict[str, list[int]]:
    """Each day of each broker within the scope, as a directory below the table, with the sizes of its files."""
    storage = tables.storage
    days: list[str] = []
    for found in tables.directories(name):
        brokers = [] if "/" in found else storage.directories(storage.under(name, found))
        days += [f"{found}/{broker}" for broker in brokers] or [found]
    return tables.sizes(name, days)


def _is_small(sizes: list[int]) -> bool:
    return len(sizes) > 1 and sum(sizes) < len(sizes) * LARGE_BYTES
