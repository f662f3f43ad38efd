"""What a field of a journal line is: its name, JSON type, meaning and the schema version it came with.

Knows no line. Invariant: within a schema version a field keeps its type and its meaning; what is added is optional
to readers of before.
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
    INTEGERS = "integers"
    """A list of them."""
    STRINGS = "strings"


class Field(NamedTuple):
    name: str
    type: FieldType
    meaning: str
    """For docs/journal.md; with its unit, if the name does not say it."""
    required: bool = True
    """False: may be left out or null."""
    since: int = 1
    """The schema version it came with."""
