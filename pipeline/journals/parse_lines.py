"""Turns lines of text into lines of a journal. Text that is no such line keeps the reason why.

DataFrame → DataFrame. Invariant: every line of text comes out exactly once, with a reason or without.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from journal_schema import (
    COMMON,
    KINDS,
    LINE_SECONDS,
    REPLICAS,
    SECONDS,
    SHAPE_PARTS,
    SHAPE_SILENT,
    VERSION,
    FieldType,
    Kind,
)

from ..tables.schema import BOUNDS, CHANGES, LINE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import Column, DataFrame

    from journal_schema import Field

_CORRUPT = "_corrupt"
_WITH_CORRUPT, _BOUNDS = (StructType([*schema, StructField(_CORRUPT, StringType())]) for schema in (LINE, BOUNDS))
PARSED = StructType([StructField("source", StringType()), *LINE,
                     StructField("problem", StringType()), StructField("value", StringType())])  # fmt: skip
"""The columns that `parse` makes of text."""
EARLIEST_SECONDS, LATEST_SECONDS = 946_684_800, 4_102_444_800
"""2000 and 2100. A time outside is in milliseconds, or of a clock that was never set."""
YEAR_10000_SECONDS = 253_402_300_800
"""Later than any date that can be written; an override may end at any."""
AHEAD_SECONDS = 86_400
"""The most by which a line may be ahead of this machine's clock."""
MOST = 1 << 53
"""The most bytes, messages or seconds in a line. What is worked out of them multiplies them by at most 825, for 15
seconds of 55 parts, and has to fit in 64 bits."""
_OF_VERSION, _OF_FUTURE = "schema version ", "its clock is in the future: "
"""How the reasons begin that may be none later."""
_CHARACTERS = f"[{SHAPE_SILENT}-\\{chr(ord(SHAPE_SILENT) + 1 + SHAPE_PARTS)}]"
_SHAPE = rf"\A(?={SHAPE_SILENT}*[^{SHAPE_SILENT}]){_CHARACTERS}+\z"
_SHAPE_OF_BYTES = f"[^{SHAPE_SILENT}{chr(ord(SHAPE_SILENT) + 1)}]"
"""The characters in a shape that has bytes."""
_COUNTS = ("partitions", "record_bytes", "header_bytes", "fetches", "omitted", *(field.name for field in SECONDS))
_WITH_ROLE = [kind for kind, fields in KINDS.items() if any(field.name == "role" for field in fields)]
_MEASURES = ("seconds", "replica_fetches", "held_seconds", "lines")
OVERRIDE_ACTIONS = ("set", "undone", "ended")
POLICIES = ("strict", "kip73")
_MEASURED = (Kind.CONNECTION, Kind.FILE_CLOSED, Kind.DROPPED)
"""Kinds whose numbers are how much or how long: not those of how far a clock was set."""


def parse(text: DataFrame, *, latest_seconds: int = LATEST_SECONDS) -> DataFrame:
    """Take columns `value` and `source`; return the fields of all kinds, `source`, `value` and `problem` (null: it is a
    line of a journal; then `value` is null), and what other columns there are.

    latest_seconds: seconds since 1970; a line that says it is later has a clock that is wrong.
    """
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = text.withColumn("line", F.from_json("value", _WITH_CORRUPT, options))
    reasoned = (
        parsed.select(*text.columns, "line.*")
        .withColumn("_missing", _missing())
        .withColumn("problem", _reason(latest_seconds))
    )
    kept = F.when(F.col("problem").isNotNull(), F.col("value")).alias("value")
    others = [name for name in text.columns if name not in PARSED.names]
    return reasoned.select(*PARSED.names[:-1], kept, *others)


def may_be_understood(latest_seconds: int) -> Column:
    """Return whether a line that was set aside for `problem` may be one of a journal by now: another version of the
    pipeline set it aside for the schema's version, or its clock was ahead by less than has passed since."""
    problem = F.col("problem")
    by_another = problem.startswith(_OF_VERSION) & ~problem.endswith(f" is not {VERSION}")
    said = F.substring(problem, len(_OF_FUTURE) + 1, len("yyyy-MM-dd"))
    has_come = problem.startswith(_OF_FUTURE) & (said < _date(F.timestamp_seconds(F.lit(latest_seconds))))
    return by_another | has_come


def _date(moment: Column) -> Column:
    return F.date_format(moment, "yyyy-MM-dd")


def _reason(latest_seconds: int) -> Column:
    """Return the first problem of a line; null if there is none."""
    return (
        F.when(F.col("v") != VERSION, F.concat(F.lit(_OF_VERSION), "v", F.lit(f" is not {VERSION}")))
        .when(
            F.col(_CORRUPT).isNotNull(),
            F.when(F.json_object_keys("value").isNull(), F.lit("not a JSON object")).otherwise(
                F.lit("a field has the wrong type")
            ),
        )
        .when(F.col("v").isNull() | F.col("kind").isNull(), F.lit("not a line of a journal: no v or no kind"))
        .when(~F.col("kind").isin([kind.value for kind in Kind]), F.concat(F.lit("unknown kind "), "kind"))
        .when(F.col("_missing") != "", F.concat(F.lit("missing: "), "_missing"))
        .when(
            ~F.col("time").between(EARLIEST_SECONDS, LATEST_SECONDS),
            F.concat(F.lit("time is not in seconds since 1970: "), "time"),
        )
        .when(
            F.col("time") > latest_seconds,
            F.concat(F.lit(_OF_FUTURE), _date(F.timestamp_seconds("time"))),
        )
        .when(_is(*_WITH_ROLE) & ~F.col("role").isin("leader", "follower"), F.concat(F.lit("unknown role "), "role"))
        .when(_is(Kind.TRAFFIC) & ~_fits(), F.lit("lists of different lengths, or of none"))
        .when(_is(Kind.TRAFFIC) & ~_counts(), F.lit("a count is negative or missing"))
        .when(
            _is(Kind.TRAFFIC) & ~_are_shapes(), F.lit("a shape is not of a sidecar's characters, or not of its bytes")
        )
        .when(
            _is(*_MEASURED) & F.coalesce(F.least(*_MEASURES) < 0, F.lit(False)),
            F.lit("a count or duration is negative"),
        )
        .when(_is(Kind.QUOTA) & _quota_problem().isNotNull(), _quota_problem())
        .when(_is(Kind.OVERRIDE) & _override_problem().isNotNull(), _override_problem())
        .when(~_fit_sums(), F.lit(f"a number is larger than {MOST}, which nothing here is"))
    )


def _quota_problem() -> Column:
    """Return the first problem of a quota's line whose fields are all there; null if there is none.

    Whatever asks of quotas believes them: a negative rate makes a breach of all that passed.
    """
    rate, selection = F.col("bytes_per_second"), F.col("selection")
    wanted = "bounds are not rates of peers, racks and topics, each said once, of 0 or more"
    return (
        F.when(~_is_rate(rate), F.concat(F.lit("bytes_per_second is not a rate of 0 or more: "), rate.cast("string")))
        .when(~F.col("policy").isin(*POLICIES), F.concat(F.lit("unknown policy "), "policy"))
        .when(
            (selection != "*") & F.json_object_keys("selection").isNull(),
            F.lit("selection is neither * nor a JSON object"),
        )
        .when(F.col("bounds").isNotNull() & ~_are_bounds(), F.lit(wanted))
    )


def _is_rate(rate: Column) -> Column:
    """Return whether it is neither negative nor infinite; null for null, which is unlimited.

    NaN is more than all numbers to Spark.
    """
    return (rate >= 0) & (rate < float("inf"))


def _are_bounds() -> Column:
    told = F.from_json("bounds", _BOUNDS, {"columnNameOfCorruptRecord": _CORRUPT})
    racks = F.map_values(told["racks"])
    right = [
        told[_CORRUPT].isNull(),
        *(_hold(F.map_values(told[kind]), _is_rate) for kind in ("peers", "topics")),
        _hold(racks, lambda rack: _is_rate(rack["bytes_per_second"]) & F.forall(rack["brokers"], F.isnotnull)),
        *(_are_different(F.map_keys(told[field.name])) for field in BOUNDS),
    ]
    return F.json_object_keys("bounds").isNotNull() & reduce(and_, right)


def _hold(values: Column, holds: Callable[[Column], Column]) -> Column:
    return F.coalesce(F.forall(values, lambda one: F.coalesce(holds(one), F.lit(False))), F.lit(True))


def _are_different(keys: Column) -> Column:
    return F.coalesce(F.size(F.array_distinct(keys)) == F.size(keys), F.lit(True))


def _override_problem() -> Column:
    """Return the first problem of an override's line whose fields are all there; null if there is none."""
    return (
        F.when(~F.col("action").isin(*OVERRIDE_ACTIONS), F.concat(F.lit("unknown action "), "action"))
        .when(~_are_changes(), F.lit("changes is not a JSON array of places, keys and values"))
        .when(
            ~F.col("until").between(EARLIEST_SECONDS, YEAR_10000_SECONDS - 1),
            F.concat(F.lit("until is not in seconds since 1970: "), "until"),
        )
    )


def _are_changes() -> Column:
    names = ("place", "key", "value")
    is_whole = F.forall(F.from_json("changes", CHANGES), lambda one: reduce(and_, [one[n].isNotNull() for n in names]))
    return F.coalesce(is_whole, F.lit(False))


def _fits() -> Column:
    """Return whether each second has its element in every list of seconds and in every shape, and each partition
    likewise."""
    seconds, replicas = ([F.size(field.name) for field in fields] for fields in (SECONDS, REPLICAS))
    return (
        seconds[0].between(1, LINE_SECONDS)
        & (F.least(*seconds) == F.greatest(*seconds))
        & (replicas[0] >= 1)
        & (F.least(*replicas) == F.greatest(*replicas))
        & F.forall("shapes", lambda shape: F.coalesce(F.length(shape) == seconds[0], F.lit(False)))
    )


def _are_shapes() -> Column:
    """Return whether a partition has news in some second, and bytes in some second if it has any.

    Otherwise its bytes would be in no second, or more of them in one than fit in 64 bits.
    """
    with_bytes = F.filter(F.arrays_zip("shapes", "record_bytes"), lambda one: one["record_bytes"] > 0)
    return F.forall("shapes", lambda shape: shape.rlike(_SHAPE)) & F.forall(
        with_bytes, lambda one: one["shapes"].rlike(_SHAPE_OF_BYTES)
    )


def _counts() -> Column:
    """Return whether nothing in a list is missing, and no count is negative."""
    there = [F.forall(field.name, F.isnotnull) for field in REPLICAS if field.name not in _COUNTS]
    counts = [F.forall(name, lambda one: F.coalesce(one >= 0, F.lit(False))) for name in _COUNTS]
    return reduce(and_, [*there, *counts])


def _fit_sums() -> Column:
    """Return whether sums of these numbers fit in 64 bits. If it did not, one line would end the whole job.

    NaN does not: to Spark it is more than every number."""
    own = [field.name for field in COMMON if field.type is FieldType.INTEGER]
    single = [F.col(name).between(-MOST, MOST) for name in (*own, *_MEASURES)]
    lists = [field.name for field in (*REPLICAS, *SECONDS) if field.type is FieldType.INTEGERS]
    several = [F.forall(name, lambda one: one.between(-MOST, MOST)) for name in lists]
    return reduce(and_, [F.coalesce(one, F.lit(True)) for one in (*single, *several)])


def _is(*kinds: Kind) -> Column:
    return F.col("kind").isin([kind.value for kind in kinds])


def _missing() -> Column:
    """Return the names of the fields that a line of its kind must have and has not."""
    by_kind = " ".join(
        f"WHEN '{kind.value}' THEN concat_ws(', ', {_null_names((*COMMON, *fields))})" for kind, fields in KINDS.items()
    )
    return F.expr(f"CASE kind {by_kind} ELSE '' END")


def _null_names(fields: Iterable[Field]) -> str:
    # concat_ws leaves out nulls, so that only the names of what is null are left.
    return ", ".join(f"if(`{field.name}` IS NULL, '{field.name}', NULL)" for field in fields if field.required)
