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
    MapType,
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
_RACK = StructType([StructField("bytes_per_second", DoubleType()), StructField("brokers", ArrayType(LongType()))])
BOUNDS = StructType(
    [
        StructField("peers", MapType(StringType(), DoubleType())),
        StructField("racks", MapType(StringType(), _RACK)),
        StructField("topics", MapType(StringType(), DoubleType())),
    ]
)
"""The field `bounds` of quota lines, which is JSON itself."""

CHANGES = ArrayType(StructType([StructField(name, StringType()) for name in ("place", "key", "value")]))
"""The field `changes` of an override's lines, which is JSON itself. A value that is a table stays JSON."""


def _column(field: Field) -> StructField:
    return StructField(field.name, TYPES[field.type])


LINE = StructType([_column(field) for field in all_fields()])
"""Any line: the fields of all kinds."""

LINES = StructType(
    [
        *(_column(field) for field in (*COMMON, *KINDS[Kind.TRAFFIC]) if field.name != "kind"),
        StructField("date", DateType()),
    ]
)
"""One row per traffic line, partitioned by the date (UTC) of its first second."""

_PARTITIONS = [StructField("date", DateType()), StructField("broker", LongType())]
_OWN = [field for field in COMMON if field.name not in ("kind", "broker")]

_LINK = [*_OWN, Field("line_tick", FieldType.INTEGER, ""), *KINDS[Kind.TRAFFIC][:2]]
_STATE = KINDS[Kind.TRAFFIC][2:4]
_COUNTS = ("record_bytes", "wire_bytes", "fetches", "omitted")
_OFFSETS = ("fetch_offset_before", "fetch_offset", "high_watermark", "log_start_offset")


def _numbers(*names: str) -> list[StructField]:
    return [StructField(name, LongType()) for name in names]


def _texts(*names: str) -> list[StructField]:
    return [StructField(name, StringType()) for name in names]


_REPLICA = [*_texts("topic"), *_numbers("partition")]
TRAFFIC = StructType(
    [*map(_column, _LINK), *_REPLICA, *map(_column, _STATE), *_numbers(*_COUNTS, *_OFFSETS), *_PARTITIONS]
)
"""One row per second, link and partition of which a traffic line had news, `line_tick` being the line's;
`fetch_offset_before` is the replica's at the second's beginning. A view of `LINES`."""

SECOND_ROWS = StructType([*map(_column, (*_LINK, *_STATE)), *_numbers(*_COUNTS), *_PARTITIONS])
"""The same, summed up over all partitions by the sidecar: to the byte in every second. Another view of `LINES`."""

_OF_TRAFFIC_ALONE = {field.name for field in KINDS[Kind.TRAFFIC]} - {"role", "peer"}
_OF_EVENTS = [field for field in all_fields() if field.name not in {"broker", *_OF_TRAFFIC_ALONE}]
EVENTS = StructType([*map(_column, _OF_EVENTS), *_PARTITIONS])
"""One row per line of any other kind; partitioned by date."""

_END = [*_texts("source", "destination"), *_REPLICA, *_texts("role")]
TIMES_BEHIND = StructType(
    [
        *_END,
        StructField("opens", BooleanType()),
        *_numbers("began", "ended"),
        StructField("finished", BooleanType()),
        *_numbers("bytes", "from_offset", "to_offset"),
        *_numbers("from_watermark", "first_known", "to_watermark", "last_known"),
        StructField("minutes", ArrayType(StructType(_numbers("minute", "active")))),
    ]
)
"""Summary: one row per end of a link, replica, time behind and day (`jobs.times_behind`): `opens` says that it begins
here, and `first_known` and `last_known` are the seconds of its first and last high watermark."""

LAG_STEPS = StructType(
    [*_texts("role"), *_numbers("time", "lag", "behind", "moved", "written", "record_bytes", "lost")]
)
"""Summary: one row per broker, role and second in which what its replicas lag changed, and by how much (`lag`)."""

HELD_MINUTES = StructType([*_texts("role", "peer", "topic"), *_numbers("partition", "minute", "bytes")])
"""Summary: one row per replica and minute in which it was behind and held back all through
(`questions.who_was_starved`)."""

REPLICA_DAYS = StructType(
    [*_END, *_numbers("first", "last", "seconds", "bytes", "told_bytes", "messages", "log_messages")]
)
"""Summary: one row per end of a replica and day (`partition_sizes`): the seconds with news of it, its log at the last,
and the `messages` that `told_bytes` of its bytes were brought for."""

SUMMARIES = {"times_behind": TIMES_BEHIND, "lag_steps": LAG_STEPS, "held_minutes": HELD_MINUTES,
             "replica_days": REPLICA_DAYS}  # fmt: skip


def kept(summary: StructType) -> StructType:
    """Return the schema of a kept summary: by date, and the fingerprint of what it was made from."""
    return StructType([*summary, StructField("of", StringType()), *_PARTITIONS])


QUARANTINE = StructType(_texts("value", "problem", "source"))
"""One row per line that is not one of a journal; `source` is the file."""

FILES = StructType(
    [
        *_texts("source"),
        *_numbers("size_bytes"),
        StructField("modified", TimestampType()),
        *_texts("state"),
        *_numbers("lines"),
        StructField("quarantined", IntegerType()),
        *_texts("path", "why", "run", "cluster"),
        *_numbers("taken"),
    ]
)
"""One row each time a file was read, at the second `taken`. `path` is the one that was read, `why` says what is wrong
with it if its state does not say all, `run` is the run of the sidecar whose lines it has, `cluster` the id of the
cluster if it says one. Of the rows of one file of a journal, by its name once it is closed, the best counts
(`file_accounts.best`): copies, and what it was while it was open, are the same."""
