"""The live journals as their files are closed: into the tables of `ingest`, by its own code, and what they say now.

A sidecar closes a file every `journal.rotate_every`: set it to 15 seconds to watch live. A look lists the files
and ingests those that are new, or have changed since the last look: one that was still being copied, say. A file that
could not be read is tried again with every look.

Invariant: the tables are those that one `ingest` of all these files makes, in whatever order and however late the files
come, even if the process is killed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql import Row, Window
from pyspark.sql import functions as F

from ..jobs import lag
from ..jobs.quotas import ROLE
from ..jobs.rates import LEVELS, per_second
from ..tables import Tables
from .ingest import CLOSED_FILES, Outcome, find_files, ingest_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

TREND_SECONDS = lag.TREND_SECONDS
SEEN_SECONDS = TREND_SECONDS + 2 * lag.HELD_SECONDS
"""How far back the present state depends on rows: the trend's seconds, and before them the lag that is carried into
them."""
PREFIX = "replication_pipeline_"
_FOUND = "source string, path string, size_bytes long, modified timestamp"


class Live:
    """Tables that follow live journals."""

    def __init__(
        self, spark: SparkSession, source: str, target: str, *, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self._spark, self._source, self._tell = spark, source, tell
        self.tables = Tables(spark, target)
        self._seen: set[Row] = set()
        """Files that need no second look as long as they stay as they are."""

    def look(self) -> Outcome:
        """Take the files that are new or have changed. Raises InputError."""
        found = find_files(self._spark, self.tables.storage, [self._source], named=CLOSED_FILES)
        listed = set(found.collect())
        fresh = sorted(listed - self._seen, key=lambda row: row.path)
        if not fresh:
            return Outcome({}, 0, 0, 0)
        outcome = ingest_files(self._spark.createDataFrame(fresh, _FOUND), self.tables, tell=self._tell)
        self.tables = self.tables.now()
        if "unread" not in outcome.files:
            self._seen = listed
        return outcome


def state(link_seconds: DataFrame, traffic: DataFrame, events: DataFrame) -> DataFrame:
    """Return the present state of each broker and role: `rate` (bytes per second over the last minute, or since its
    first second), `lag`, `behind`, `omitted`, `drain`, `eta_seconds`, `stalled`; `time` is the last second seen.

    By the same functions as `rates` and `lag`, of the end of the tables.
    """
    seconds = _recent(per_second(link_seconds, LEVELS["broker"]), TREND_SECONDS)
    length = F.least(F.max("last") - F.min("first") + 1, F.lit(TREND_SECONDS))
    summed = seconds.groupBy(*ROLE).agg((F.sum("bytes") / length).alias("rate"), F.sum("omitted").alias("omitted"))
    recent = _recent(traffic.where("throttled"), SEEN_SECONDS)
    progress = lag.progress(lag.sum_replica_lag(lag.per_replica(recent)), events).where("lost = 0")
    columns = ("time", "lag", "behind", "drain", "eta_seconds")
    spoken = progress.groupBy(*ROLE).agg(F.max_by(F.struct(*columns), "time").alias("now"))
    stalled = F.coalesce((F.col("now.lag") > 0) & (F.col("now.drain") <= 0), F.lit(False))
    told = summed.join(spoken, on=list(ROLE), how="inner")
    return told.select(*ROLE, "rate", "omitted", "now.*", stalled.alias("stalled")).orderBy(*ROLE)


def _recent(rows: DataFrame, seconds: int) -> DataFrame:
    """Return rows of the last so many seconds of each broker's role, with its `first` and `last` second of all."""
    whole = Window.partitionBy(*ROLE)
    ends = rows.withColumns({"last": F.max("time").over(whole), "first": F.min("time").over(whole)})
    return ends.where(F.col("time") > F.col("last") - seconds)


METRICS = (
    ("rate_bytes_per_second", "rate", "Throttled bytes per second over the last minute seen."),
    ("lag_messages", "lag", "Messages that throttled replicas are behind."),
    ("eta_seconds", "eta_seconds", "Lag over the last minute's trend; absent while it does not shrink."),
    ("stalled", "stalled", "1 if replicas are behind and the lag does not shrink."),
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


def write_textfile(path: Path, text: str) -> None:
    """Write it whole or not at all, as the collector wants it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, "utf-8")
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
