"""What a field of a journal line is: its name, JSON type, meaning and the schema version it came with.

Knows no line. Invariant: a field's type never changes from one schema version to the next; new meanings get new
names, so that lines of every version share one table.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class FieldType(enum.Enum):
    """JSON types, narrowed to what a table can hold."""

    INTEGER = "integer"
    """64 bits, signed."""
    NUMBER = "number"
    BOOLEAN = "boolean"
    STRING = "string"


class Field(NamedTuple):
    name: str
    type: FieldType
    meaning: str
    """For docs/journal.md; with its unit, if the name does not say it."""
    required: bool = True
    """False: may be left out or null."""
    since: int = 1
    """The schema version it came with."""
