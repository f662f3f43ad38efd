"""Tables as a job prints them, among whatever else a cluster says."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def role_rows(said: str, keys: Sequence[str]) -> list[tuple[str, ...]]:
    """Those columns of the table that begins with broker and role, of its rows."""
    lines = [line.split() for line in said.splitlines()]
    header = next(line for line in lines if line[:2] == ["broker", "role"])
    kept = [dict(zip(header, line, strict=False)) for line in lines if line[1:2] in (["leader"], ["follower"])]
    return [tuple(row[key] for key in keys) for row in kept]
