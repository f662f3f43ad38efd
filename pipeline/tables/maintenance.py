"""Upkeep of Delta tables on request: small files put together, and files that no version needs removed.

Rows stay as they are. Others may read and write meanwhile; each table is a commit of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from delta.tables import DeltaTable

from . import delta
from .tables import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Callable

    from .tables import Tables


class Compacted(NamedTuple):
    """What became of one table: how many files, and of how many bytes, others took the place of, and these others."""

    table: str
    files_before: int
    files: int
    bytes_before: int
    bytes: int


def compact(
    tables: Tables, *, tell: Callable[[str], None] = lambda _: None, keep_seconds: int | None = None
) -> list[Compacted]:
    """Put small files of the scope's days together, and remove what no version needs that may still be asked for.

    keep_seconds: how long files stay from now on that others took the place of; None: as long as before.
    """
    done = []
    for name, schema in SCHEMAS.items():
        path = tables.path(name)
        if not delta.exists(tables.storage, path):
            continue
        tell(name)
        if keep_seconds is not None:
            delta.keep_replaced(tables.spark, path, keep_seconds)
        table = DeltaTable.forPath(tables.spark, path)
        days = tables.scope.dates_condition if "date" in schema.names else None
        optimising = table.optimize() if days is None else table.optimize().where(days)
        with delta.writing(path):
            metrics = optimising.executeCompaction().select("metrics.*").collect()[0]
            table.vacuum()
        added, removed = metrics.filesAdded, metrics.filesRemoved
        done.append(
            Compacted(
                name, metrics.numFilesRemoved, metrics.numFilesAdded, removed.totalSize or 0, added.totalSize or 0
            )
        )
    return done
