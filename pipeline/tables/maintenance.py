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
    """The files of one table that were replaced, those that took their place, and the bytes of both."""

    table: str
    files_before: int
    files: int
    bytes_before: int
    bytes: int


def compact(tables: Tables, *, tell: Callable[[str], None] = lambda _: None) -> list[Compacted]:
    """Put small files together, and remove those that Delta need not keep for readers any more."""
    done = []
    for name in SCHEMAS:
        path = tables.path(name)
        if not delta.exists(tables.storage, path):
            continue
        tell(name)
        table = DeltaTable.forPath(tables.spark, path)
        with delta.writing(path):
            metrics = table.optimize().executeCompaction().select("metrics.*").collect()[0]
            table.vacuum()
        added, removed = metrics.filesAdded, metrics.filesRemoved
        done.append(
            Compacted(
                name, metrics.numFilesRemoved, metrics.numFilesAdded, removed.totalSize or 0, added.totalSize or 0
            )
        )
    return done
