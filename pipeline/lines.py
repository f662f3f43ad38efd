"""Lines of text to lines of a journal, and those that are none, with the reason.

DataFrame → DataFrame. Invariant: every line of text comes out exactly once, with a reason or without.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from journal_schema import COMMON, KINDS, VERSION, Kind

from .schema import LINE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

_CORRUPT = "_corrupt"
_WITH_CORRUPT = StructType([*LINE, StructField(_CORRUPT, StringType())])
EARLIEST_SECONDS, LATEST_SECONDS = 946_684_800, 4_102_444_800
"""2000 and 2100: what is outside is in milliseconds, or no clock."""
_COUNTS = ("partition", "record_bytes", "wire_bytes", "fetches", "omitted")


def parse(text: DataFrame) -> DataFrame:
    """Take columns `value` and `source`; return the fields of all kinds, `source`, `value` and `reason` (null: it is a
    line of a journal; then `value` is null)."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = text.select("source", "value", F.from_json("value", _WITH_CORRUPT, options).alias("line"))
    flat = parsed.select("source", "value", "line.*")
    reasoned = flat.withColumn("reason", _reason())
    fields = [name for name in reasoned.columns if name not in ("source", "value", "reason", _CORRUPT)]
    kept = F.when(F.col("reason").isNotNull(), F.col("value")).alias("value")
    return reasoned.select("source", *fields, "reason", kept)


def _reason() -> Column:
    """The first thing that is wrong with a line; null if nothing is."""
    return (
        F.when(
            F.col(_CORRUPT).isNotNull(),
            F.when(F.json_object_keys("value").isNull(), F.lit("not a JSON object")).otherwise(
                F.lit("a field has the wrong type")
            ),
        )
        .when(F.col("v").isNull() | F.col("kind").isNull(), F.lit("not a line of a journal: no v or no kind"))
        .when(F.col("v") > VERSION, F.concat(F.lit("schema version "), "v", F.lit(f" is newer than {VERSION}")))
        .when(~F.col("kind").isin([kind.value for kind in Kind]), F.concat(F.lit("unknown kind "), "kind"))
        .when(_missing(_required()) != "", F.concat(F.lit("missing: "), _missing(_required())))
        .when(_incomplete(), F.concat(F.lit("missing: "), _missing_by_kind()))
        .when(
            ~F.col("time").between(EARLIEST_SECONDS, LATEST_SECONDS),
            F.concat(F.lit("time is not in seconds since 1970: "), "time"),
        )
        .when(_is_traffic() & _any(F.col(name) < 0 for name in _COUNTS), F.lit("a count is negative"))
        .when(_is_traffic() & ~F.col("role").isin("leader", "follower"), F.concat(F.lit("unknown role "), "role"))
    )


def _is_traffic() -> Column:
    return F.col("kind") == Kind.TRAFFIC.value


def _required(kind: Kind | None = None) -> list[str]:
    return [field.name for field in (COMMON if kind is None else KINDS[kind]) if field.required]


def _incomplete() -> Column:
    return _any(
        (F.col("kind") == kind.value) & _any(F.col(name).isNull() for name in _required(kind))
        for kind in KINDS
        if _required(kind)
    )


def _missing(names: Iterable[str]) -> Column:
    # concat_ws leaves out nulls, so only the names of what is null are left.
    return F.concat_ws(", ", *(F.when(F.col(name).isNull(), F.lit(name)) for name in names))


def _missing_by_kind() -> Column:
    found = F.lit("")
    for kind in KINDS:
        if _required(kind):
            found = F.when(F.col("kind") == kind.value, _missing(_required(kind))).otherwise(found)
    return found


def _any(conditions: Iterable[Column]) -> Column:
    return reduce(lambda one, other: one | other, conditions)
