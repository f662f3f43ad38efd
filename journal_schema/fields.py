"""A field of a journal line: its name, JSON type, meaning and the schema version it came with.

Knows no line. Invariant: within a schema version a field keeps its type and its meaning. A field that is added within
a version is optional, so that readers written before it go on working.
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
    """A list of integers."""
    STRINGS = "strings"
    """A list of strings."""


class Field(NamedTuple):
    name: str
    type: FieldType
    meaning: str
    """For docs/journal.md; with its unit, if the name does not say it."""
    required: bool = True
    """Whether every line of the kind has it, and not as null."""
    since: int = 1
    """The schema version it came with."""
