"""The journal's lines, declared once: the sidecar writes them, the pipeline reads them, docs/journal.md shows them.

The nouns: a *line* is one JSON object. Its *kind* says which *fields* it has. A *traffic* line says what one link
carried in up to fifteen seconds; a line of any other kind is an *event*. Standard library only; nothing here knows
files, Spark or the sidecar.
"""

from .lines import (
    COMMON,
    KINDS,
    LINE_SECONDS,
    REPLICAS,
    SECONDS,
    SHAPE_PARTS,
    SHAPE_SILENT,
    TRAFFIC_IDENTITY,
    VERSION,
    Field,
    FieldType,
    Kind,
    all_fields,
)

__all__ = [
    "VERSION",
    "Kind",
    "KINDS",
    "COMMON",
    "LINE_SECONDS",
    "SECONDS",
    "REPLICAS",
    "SHAPE_SILENT",
    "SHAPE_PARTS",
    "TRAFFIC_IDENTITY",
    "all_fields",
    "Field",
    "FieldType",
]
