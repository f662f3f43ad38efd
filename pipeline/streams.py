"""The recorded demand as the fluid model wants it, and scenarios of it beside each other.

Apart from `replay`, whose Python runs on executors, which need not have numpy. Invariant: a row per pair of brokers
comes to the driver, however long the recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from .fluid import Stream, finish_times
from .replay import LINK, per_link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from .replay import WhatIf


def streams(traffic: DataFrame) -> list[Stream]:
    """Who was behind by how much, and the mean of what was written meanwhile; `starts` since 1970."""
    lasted = (F.max("time") - F.min("begins") + 1).cast("double")
    bytes_written = F.coalesce(F.sum("bytes"), F.lit(0.0))
    rows = (
        per_link(
            traffic,
            F.min("begins").cast("double").alias("since"),
            bytes_written.alias("bytes"),
            lasted.alias("seconds"),
        )
        .orderBy(*LINK)
        .collect()
    )
    return [
        Stream(row.source, row.destination, row.backlog_bytes, row.since, row.bytes / row.seconds, row.seconds)
        for row in rows
    ]


def fluid(
    spark: SparkSession, links: Sequence[Stream], what_ifs: Sequence[WhatIf], *, line_bytes_per_second: float
) -> DataFrame:
    """What `replay.durations` says, by the fluid model, at the driver; `began` is since the first link's.

    Raises ValueError for another policy than `strict`, whose long run it is.
    """
    zero = min((link.starts for link in links), default=0.0)
    rows = []
    for one in what_ifs:
        if one.policy != "strict":
            raise ValueError(f"the fluid model is the strict policy's, found {one.policy}")
        found = finish_times(links, one.quotas(links), line_bytes_per_second=line_bytes_per_second)
        rows += [
            (one.name, one.policy, link.source, link.destination, link.starts - zero, end and end - link.starts)
            for link, end in zip(links, found, strict=True)
        ]
    schema = "name string, policy string, source string, destination string, began double, seconds double"
    return spark.createDataFrame(rows, schema)
