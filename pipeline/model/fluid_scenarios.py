"""Scenarios of the fluid model beside each other, and by it what the exact model would take for them.

Apart from `replay`, whose Python runs on executors, which need not have numpy. Invariant: a row per link and wave
comes to the driver, however long the recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fluid import Stream, finish_times
from .replay import MAX_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from ..jobs.inner_rates import Bound
    from .replay import WhatIf
    from .simulation import Flow

EXACT_CPU_SECONDS = 0.0003
"""The CPU time for each second of a link (measured: 0.2 ms where one end has a quota, 0.3 where both have)."""


def fluid(
    spark: SparkSession,
    links: Sequence[Stream],
    what_ifs: Sequence[WhatIf],
    *,
    line_bytes_per_second: float,
    bounds: Sequence[Bound] = (),
) -> DataFrame:
    """Return `replay.durations` by the fluid model, at the driver; `began` is since the first link's.

    what_ifs: of the strict policy, whose long run it is.
    """
    zero = min((link.starts for link in links), default=0.0)
    rows = []
    for one in what_ifs:
        found = finish_times(links, one.quotas(links), bounds=bounds, line_bytes_per_second=line_bytes_per_second)
        rows += [
            (one.name, one.policy, link.source, link.destination, link.starts - zero, end and end - link.starts)
            for link, end in zip(links, found, strict=True)
        ]
    schema = "name string, policy string, source string, destination string, began double, seconds double"
    return spark.createDataFrame(rows, schema)


def exact_cpu_seconds(
    flows: Sequence[Flow], what_ifs: Sequence[WhatIf], *, line_bytes_per_second: float, bounds: Sequence[Bound] = ()
) -> float:
    """Estimate the CPU seconds of the exact model, for all scenarios together: it follows each link until it has caught
    up and nothing more is written to it. Links that stand still cost nothing."""
    links = [
        Stream(
            flow.source, flow.destination, flow.backlog_bytes, flow.starts,
            sum(flow.arrivals) / max(len(flow.arrivals), 1), float(len(flow.arrivals)),
        )
        for flow in flows
    ]  # fmt: skip
    seconds = 0.0
    for one in what_ifs:
        quotas = one.quotas(links)
        found = finish_times(links, quotas, bounds=bounds, line_bytes_per_second=line_bytes_per_second)
        for link, end in zip(links, found, strict=True):
            if all(quotas.get(side) != 0 for side in ((link.source, "leader"), (link.destination, "follower"))):
                took = MAX_SECONDS if end is None else end - link.starts
                seconds += min(max(took, link.written_seconds), MAX_SECONDS)
    return seconds * EXACT_CPU_SECONDS
