"""The checks of a quota line: a role's rate, what it selects, and the rates inside it.

Whatever asks of quotas believes them: a negative rate makes a breach of all that passed. So a line that says what no
quota can be is set aside as it is read. Invariant: what is said of a line here begins with the field that is wrong.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ..tables.schema import BOUNDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

POLICIES = ("strict", "kip73")
_CORRUPT = "_corrupt"
_WITH_CORRUPT = StructType([*BOUNDS, StructField(_CORRUPT, StringType())])


def problem() -> Column:
    """Return the first problem of a quota line whose fields are all there; null if there is none."""
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
    told = F.from_json("bounds", _WITH_CORRUPT, {"columnNameOfCorruptRecord": _CORRUPT})
    racks = F.map_values(told["racks"])
    right = [
        told[_CORRUPT].isNull(),
        *(_all(F.map_values(told[kind]), _is_rate) for kind in ("peers", "topics")),
        _all(racks, lambda rack: _is_rate(rack["bytes_per_second"]) & F.forall(rack["brokers"], F.isnotnull)),
        *(_are_different(F.map_keys(told[field.name])) for field in BOUNDS),
    ]
    return F.json_object_keys("bounds").isNotNull() & reduce(and_, right)


def _all(values: Column, holds: Callable[[Column], Column]) -> Column:
    return F.coalesce(F.forall(values, lambda one: F.coalesce(holds(one), F.lit(False))), F.lit(True))


def _are_different(keys: Column) -> Column:
    return F.coalesce(F.size(F.array_distinct(keys)) == F.size(keys), F.lit(True))
