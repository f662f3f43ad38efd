"""The present state of each broker and role: how much is left, and when it ends; as gauges for Prometheus, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Row, Window
from pyspark.sql import functions as F

from ..jobs.quotas import ROLE
from ..jobs.rates import LEVELS, per_second
from ..tables.scope import Scope
from . import will_it_finish

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from ..tables import Tables

RATE_SECONDS = 60
SEEN_SECONDS = 3600
"""How far back the present state looks for replicas that were behind."""
PREFIX = "replication_pipeline_"


def state(tables: Tables) -> list[Row]:
    """Return the present state of each broker and role: `rate` (bytes per second over the last minute, or since its
    first second), `omitted`, `time` (the last second seen), and `behind`, `lost`, `remaining_bytes`, `pace`,
    `eta_seconds` (null: never, or not known), `stalled` as `lag` says them, of the last hour."""
    now = tables.last_second()
    if now is None:
        return []
    near = tables.within(Scope(since=now - SEEN_SECONDS))
    seconds = _recent(per_second(near.seconds, LEVELS["broker"]), RATE_SECONDS)
    length = F.least(F.max("last") - F.min("first") + 1, F.lit(RATE_SECONDS))
    summed = seconds.groupBy(*ROLE).agg(
        F.max("time").alias("time"), (F.sum("bytes") / length).alias("rate"), F.sum("omitted").alias("omitted")
    )
    roles = will_it_finish.by_role(will_it_finish.facts(near))
    found = []
    for row in summed.orderBy(*ROLE).collect():
        one = roles.get((str(row.broker), row.role), will_it_finish.RoleEnd())
        found.append(Row(**row.asDict(), behind=one.behind, lost=one.lost, remaining_bytes=one.remaining_bytes,
                         pace=one.pace, eta_seconds=one.end.seconds, stalled=one.stalled))  # fmt: skip
    return found


def _recent(rows: DataFrame, seconds: int) -> DataFrame:
    """Return rows of the last so many seconds of each broker's role, with its `first` and `last` second of all."""
    whole = Window.partitionBy(*ROLE)
    ends = rows.withColumns({"last": F.max("time").over(whole), "first": F.min("time").over(whole)})
    return ends.where(F.col("time") > F.col("last") - seconds)


METRICS = (
    ("rate_bytes_per_second", "rate", "Throttled bytes per second over the last minute seen."),
    ("remaining_bytes", "remaining_bytes", "Bytes that replicas behind lack; absent if not known."),
    ("eta_seconds", "eta_seconds", "Seconds until nothing is behind; absent if never, or not known."),
    ("stalled", "stalled", "1 if replicas are behind and come no nearer."),
    (
        "lost_replicas",
        "lost",
        "Replicas that fell silent while behind in the last hour, and were not seen in sync since.",
    ),
    ("seen_timestamp_seconds", "time", "The last second that this is about."),
)
FILES_METRIC, FILES_MEANING = "files", "Journal files taken, by what they were: whole, torn, corrupt, unread and so on."


def exposition(rows: Iterable[Row], files: Iterable[tuple[str, int]] = ()) -> str:
    """Return Prometheus' text format, for node_exporter's textfile collector. files: state and number."""
    found = list(rows)
    texts = []
    for name, column, meaning in METRICS:
        texts += _head(name, meaning)
        texts += [
            f'{PREFIX}{name}{{broker="{row.broker}",role="{row.role}"}} {float(row[column]):.10g}'
            for row in found
            if row[column] is not None
        ]
    texts += _head(FILES_METRIC, FILES_MEANING)
    texts += [f'{PREFIX}{FILES_METRIC}{{state="{kind}"}} {number}' for kind, number in files]
    return "\n".join(texts) + "\n"


def _head(name: str, meaning: str) -> list[str]:
    return [f"# HELP {PREFIX}{name} {meaning}", f"# TYPE {PREFIX}{name} gauge"]
