"""The results of a benchmark: rows of JSON in a file below build/, to which each run adds.

Invariant: a row that was written is never altered.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

BUILD = Path(__file__).parents[1] / "build"


def keep(where: Path, row: dict[str, Any]) -> None:
    """Add a row."""
    where.parent.mkdir(exist_ok=True)
    with where.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(row) + "\n")


def kept(where: Path, advice: str) -> list[dict[str, Any]]:
    """Return all rows, the oldest first. Raises ClickException: there are none, which is said with the `advice`, or a
    line is not JSON."""
    if not where.exists():
        raise click.ClickException(f"{where}: no results: {advice}")
    rows = []
    for number, line in enumerate(where.read_text("utf-8").splitlines(), 1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise click.ClickException(f"{where}:{number}: expected a line of JSON: {error}") from error
    return rows
