"""A part of a document that a benchmark writes: what is between two marks, which stay.

    <!-- scrapes: begin -->
    | … |
    <!-- scrapes: end -->

Invariant: text outside the marks is never touched, and a document without them not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from pathlib import Path


class DocumentPart(NamedTuple):
    """A part of a document between two marks that have its name."""

    name: str

    @property
    def begin(self) -> str:
        return f"<!-- {self.name}: begin -->"

    @property
    def end(self) -> str:
        return f"<!-- {self.name}: end -->"

    def put(self, document: str, text: str, where: Path) -> str:
        """Return the document with `text` between the marks. Raises ClickException: it lacks them."""
        before, begins, rest = document.partition(self.begin)
        _, ends, after = rest.partition(self.end)
        if not begins or not ends:
            raise click.ClickException(f"{where}: expected the marks {self.begin} and {self.end}")
        return f"{before}{begins}\n{text}\n{ends}{after}"

    def write(self, where: Path, text: str) -> None:
        """Put `text` into the file. Raises ClickException: it lacks the marks."""
        where.write_text(self.put(where.read_text("utf-8"), text, where), "utf-8")
