"""Spark's view of the journal's schema, derived from `journal_schema`, and the tables that `ingest` writes.

Knows types only. Invariant: nothing about a line is said here that `journal_schema` does not say.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
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
    FieldType.INTEGERS: ArrayType(LongType()),
    FieldType.STRINGS: ArrayType(StringType()),
}
PARTITION_COLUMNS = ("date", "broker")


def _column(field: Field) -> StructField:
    return StructField(field.name, TYPES[field.type])


LINE = StructType([_column(field) for field in all_fields()])
"""Any line: the fields of all kinds."""

_PARTITIONS = [StructField("date", DateType()), StructField("broker", LongType())]
_OWN = [field for field in COMMON if field.name not in ("kind", "broker")]

_LINK = [*_OWN, Field("line_tick", FieldType.INTEGER, ""), *KINDS[Kind.TRAFFIC][:2]]
_STATE = KINDS[Kind.TRAFFIC][2:4]
_COUNTS = ("record_bytes", "wire_bytes", "fetches", "omitted")
_OFFSETS = ("fetch_offset_before", "fetch_offset", "high_watermark", "log_start_offset")


def _numbers(*names: str) -> list[StructField]:
    return [StructField(name, LongType()) for name in names]


TRAFFIC = StructType(
    [
        *map(_column, _LINK),
        StructField("topic", StringType()),
        *_numbers("partition"),
        *map(_column, _STATE),
        *_numbers(*_COUNTS, *_OFFSETS),
        *_PARTITIONS,
    ]
)
"""One row per second, link and partition of which a traffic line had news, `line_tick` being the line's;
`fetch_offset_before` is the replica's at the second's beginning. Partitioned by date (UTC) and broker."""

SECOND_ROWS = StructType([*map(_column, (*_LINK, *_STATE)), *_numbers(*_COUNTS), *_PARTITIONS])
"""The same, summed up over all partitions by the sidecar: to the byte in every second."""

LINE_KEY = ("broker", "run", "line_tick", "role", "peer", "throttled", "in_sync")
"""Which line a row came from."""

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
        StructField("path", StringType()),
        StructField("why", StringType()),
    ]
)
"""One row per file of a journal, by its name once it is closed: copies, and what it was while it was open, are the
same. `path` is the one that was read, `why` says what is wrong with it if its state does not say all."""
