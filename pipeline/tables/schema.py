"""Spark's view of the journal's schema, derived from `journal_schema`, and the tables that `ingest` writes.

Knows types only. Invariant: nothing about a line is said here that `journal_schema` does not say.
"""

from __future__ import annotations

from pyspark.sql import types as T

from journal_schema import COMMON, KINDS, Field, FieldType, Kind, all_fields

TYPES: dict[FieldType, T.DataType] = {
    FieldType.INTEGER: T.LongType(),
    FieldType.NUMBER: T.DoubleType(),
    FieldType.BOOLEAN: T.BooleanType(),
    FieldType.STRING: T.StringType(),
    FieldType.INTEGERS: T.ArrayType(T.LongType()),
    FieldType.STRINGS: T.ArrayType(T.StringType()),
}
_RACK = T.StructType(
    [T.StructField("bytes_per_second", T.DoubleType()), T.StructField("brokers", T.ArrayType(T.LongType()))]
)
BOUNDS = T.StructType(
    [
        T.StructField("peers", T.MapType(T.StringType(), T.DoubleType())),
        T.StructField("racks", T.MapType(T.StringType(), _RACK)),
        T.StructField("topics", T.MapType(T.StringType(), T.DoubleType())),
    ]
)
"""The field `bounds` of quota lines, which is JSON itself."""

CHANGES = T.ArrayType(T.StructType([T.StructField(name, T.StringType()) for name in ("place", "key", "value")]))
"""The field `changes` of an override's lines, which is JSON itself. A value that is a table stays JSON."""


def _column(field: Field) -> T.StructField:
    return T.StructField(field.name, TYPES[field.type])


LINE = T.StructType([_column(field) for field in all_fields()])
"""Any line: the fields of all kinds."""

LINES = T.StructType(
    [
        *(_column(field) for field in (*COMMON, *KINDS[Kind.TRAFFIC]) if field.name != "kind"),
        T.StructField("date", T.DateType()),
    ]
)
"""One row per traffic line, partitioned by the date (UTC) of its first second."""

_PARTITIONS = [T.StructField("date", T.DateType()), T.StructField("broker", T.LongType())]
_OWN = [field for field in COMMON if field.name not in ("kind", "broker")]

_LINK = [*_OWN, Field("line_tick", FieldType.INTEGER, ""), *KINDS[Kind.TRAFFIC][:2]]
_STATE = KINDS[Kind.TRAFFIC][2:4]
_COUNTS = ("record_bytes", "wire_bytes", "fetches", "omitted")
_OFFSETS = ("fetch_offset_before", "fetch_offset", "high_watermark", "log_start_offset")


def _numbers(*names: str) -> list[T.StructField]:
    return [T.StructField(name, T.LongType()) for name in names]


def _texts(*names: str) -> list[T.StructField]:
    return [T.StructField(name, T.StringType()) for name in names]


_REPLICA = [*_texts("topic"), *_numbers("partition")]
TRAFFIC = T.StructType(
    [*map(_column, _LINK), *_REPLICA, *map(_column, _STATE), *_numbers(*_COUNTS, *_OFFSETS), *_PARTITIONS]
)
"""One row per second, link and partition of which a traffic line had news, `line_tick` being the line's;
`fetch_offset_before` is the replica's at the second's beginning. A view of `LINES`."""

SECOND_ROWS = T.StructType([*map(_column, (*_LINK, *_STATE)), *_numbers(*_COUNTS), *_PARTITIONS])
"""The same, summed up over all partitions by the sidecar: to the byte in every second. Another view of `LINES`."""

_OF_TRAFFIC_ALONE = {field.name for field in KINDS[Kind.TRAFFIC]} - {"role", "peer"}
_OF_EVENTS = [field for field in all_fields() if field.name not in {"broker", *_OF_TRAFFIC_ALONE}]
EVENTS = T.StructType([*map(_column, _OF_EVENTS), *_PARTITIONS])
"""One row per line of any other kind; partitioned by date."""

_END = [*_texts("source", "destination"), *_REPLICA, *_texts("role")]
TIMES_BEHIND = T.StructType(
    [
        *_END,
        T.StructField("opens", T.BooleanType()),
        *_numbers("began", "ended"),
        T.StructField("finished", T.BooleanType()),
        *_numbers("bytes", "from_offset", "to_offset"),
        *_numbers("from_watermark", "first_known", "to_watermark", "last_known"),
        T.StructField("minutes", T.ArrayType(T.StructType(_numbers("minute", "active")))),
    ]
)
"""Summary: one row per end of a link, replica, time behind and day (`jobs.times_behind`): `opens` says that it begins
here, and `first_known` and `last_known` are the seconds of its first and last high watermark."""

LAG_SECONDS = T.StructType(
    [
        *_texts("role"),
        *_numbers("time", "lag", "lag_bytes", "behind", "unsized", "record_bytes", "written_bytes", "lost"),
    ]
)
"""Summary: one row per broker, role and second in which what its replicas lag changed, and by how much (`lag`)."""

HELD_MINUTES = T.StructType([*_texts("role", "peer", "topic"), *_numbers("partition", "minute", "bytes")])
"""Summary: one row per replica and minute in which it was behind and held back all through
(`questions.who_was_starved`)."""

REPLICA_DAYS = T.StructType(
    [*_END, *_numbers("first", "last", "seconds", "bytes", "told_bytes", "messages", "log_messages")]
)
"""Summary: one row per end of a replica and day (`partition_sizes`): the seconds with news of it, its log at the last,
and the `messages` that `told_bytes` of its bytes were brought for."""

SUMMARIES = {"times_behind": TIMES_BEHIND, "lag_seconds": LAG_SECONDS, "held_minutes": HELD_MINUTES,
             "replica_days": REPLICA_DAYS}  # fmt: skip


def kept(summary: T.StructType) -> T.StructType:
    """Return the schema of a kept summary: by date, and the fingerprint of what it was made from."""
    return T.StructType([*summary, T.StructField("of", T.StringType()), *_PARTITIONS])


QUARANTINE = T.StructType(_texts("value", "problem", "source"))
"""One row per line that is not one of a journal; `source` is the file."""

VERSIONS = {"lines": "lines_version", "events": "events_version"}
"""The columns of the files table that say at which versions, at least, those tables have a file's lines."""

FILES = T.StructType(
    [
        *_texts("source"),
        *_numbers("size_bytes"),
        T.StructField("modified", T.TimestampType()),
        *_texts("state"),
        *_numbers("lines"),
        T.StructField("quarantined", T.IntegerType()),
        *_texts("path", "why", "run", "cluster"),
        *_numbers("taken", *VERSIONS.values()),
    ]
)
"""One row each time a file was read, at the second `taken`. `path` is the one that was read, `why` says what is wrong
with it if its state does not say all, `run` is the run of the sidecar whose lines it has, `cluster` the id of the
cluster if it says one; `VERSIONS` are those of the tables when the row was written. Of the rows of one file of a
journal, by its name once it is closed, the best counts (`file_accounts.best`): copies, and what it was while it was
open, are the same."""
