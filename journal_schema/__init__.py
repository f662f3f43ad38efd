"""The journal's lines, declared once: the sidecar writes them, the pipeline reads them, docs/journal.md shows them.

The nouns: a *line* is one JSON object; its *kind* says which *fields* it has; *traffic* lines say what one second
brought of one partition, all other kinds are *events*. Standard library only; nothing here knows files, Spark or
the sidecar.
"""

from .fields import Field, FieldType
from .lines import COMMON, EVENT_KINDS, KINDS, TRAFFIC_IDENTITY, VERSION, Kind, all_fields

__all__ = [
    "VERSION",
    "Kind",
    "KINDS",
    "EVENT_KINDS",
    "COMMON",
    "TRAFFIC_IDENTITY",
    "all_fields",
    "Field",
    "FieldType",
]
