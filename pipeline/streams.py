"""Scenarios of the fluid model beside each other.

Apart from `replay`, whose Python runs on executors, which need not have numpy. Invariant: a row per link and wave
comes to the driver, however long the recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fluid import finish_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from .bounds import Bound
    from .fluid import Stream
    from .replay import WhatIf


def fluid(
    spark: SparkSession,
    links: Sequence[Stream],
    what_ifs: Sequence[WhatIf],
    *,
    line_bytes_per_second: float,
    bounds: Sequence[Bound] = (),
) -> DataFrame:
    """What `replay.durations` says, by the fluid model, at the driver; `began` is since the first link's.

    Raises ValueError for another policy than `strict`, whose long run it is.
    """
    zero = min((link.starts for link in links), default=0.0)
    rows = []
    for one in what_ifs:
        if one.policy != "strict":
            raise ValueError(f"the fluid model is the strict policy's, found {one.policy}")
        found = finish_times(links, one.quotas(links), bounds=bounds, line_bytes_per_second=line_bytes_per_second)
        rows += [
            (one.name, one.policy, link.source, link.destination, link.starts - zero, end and end - link.starts)
            for link, end in zip(links, found, strict=True)
        ]
    schema = "name string, policy string, source string, destination string, began double, seconds double"
    return spark.createDataFrame(rows, schema)
