"""Spark's view of the journal's schema, derived from `journal_schema`, and the tables that `ingest` writes.

Knows types only. Invariant: nothing about a line is said here that `journal_schema` does not say.
"""

from __future__ import annotations

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from journal_schema import COMMON, KINDS, Field, FieldType, Kind, all_fields

TYPES: dict[FieldType, DataType] = {
    FieldType.INTEGER: LongType(),
    FieldType.NUMBER: DoubleType(),
    FieldType.BOOLEAN: BooleanType(),
    FieldType.STRING: StringType(),
}
PARTITION_COLUMNS = ("date", "broker")


def _column(field: Field) -> StructField:
    return StructField(field.name, TYPES[field.type])


LINE = StructType([_column(field) for field in all_fields()])
"""Any line: the fields of all kinds."""

_PARTITIONS = [StructField("date", DateType()), StructField("broker", LongType())]
_OWN = [field for field in COMMON if field.name not in ("kind", "broker")]

TRAFFIC = StructType([*map(_column, (*_OWN, *KINDS[Kind.TRAFFIC])), *_PARTITIONS])
"""One row per traffic line; partitioned by date (UTC) and broker."""

_OF_TRAFFIC_ALONE = {field.name for field in KINDS[Kind.TRAFFIC]} - {"role", "peer"}
_OF_EVENTS = [field for field in all_fields() if field.name not in {"broker", *_OF_TRAFFIC_ALONE}]
EVENTS = StructType([*map(_column, _OF_EVENTS), *_PARTITIONS])
"""One row per line of any other kind; partitioned likewise."""

QUARANTINE = StructType(
    [StructField("value", StringType()), StructField("problem", StringType()), StructField("source", StringType())]
)
"""One row per line that is not one of a journal; partitioned by source, the file."""

FILES = StructType(
    [
        StructField("source", StringType()),
        StructField("size_bytes", LongType()),
        StructField("modified", TimestampType()),
        StructField("state", StringType()),
        StructField("lines", LongType()),
        StructField("quarantined", IntegerType()),
    ]
)
"""One row per file of a journal that was read."""
