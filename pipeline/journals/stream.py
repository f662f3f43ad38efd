"""The live journals as their files are closed: into the tables of `ingest`, by its own code, and what they say now.

Spark's Structured Streaming lists the files and remembers which it has offered (a sidecar closes one every
`journal.rotate_every`: set it to some ten seconds to watch live). Each batch is an ingest of its files. A file that
could not be read, or was still being copied, is offered again with the next batch, or after a while without one.

Invariant: the tables are those that one `ingest` of all these files makes, in whatever order and however late the files
come, even if the stream is killed between two batches.
"""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import Row, Window
from pyspark.sql import functions as F

from ..errors import InputError
from ..jobs import lag
from ..jobs.quotas import ROLE
from ..jobs.rates import LEVELS, per_second
from ..tables import Tables
from ..tables.storage import literal
from .ingest import Outcome, ingest_files, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TREND_SECONDS = lag.TREND_SECONDS
SEEN_SECONDS = TREND_SECONDS + 2 * lag.HELD_SECONDS
"""How far back the present state depends on rows: the trend's seconds, and before them the lag that is carried into
them."""
CLOSED_FILES = "journal-*[0-9].{ndjson,txt}.gz"
"""Files that are closed. Those still being written do not match, because a stream is offered each file only once."""
MAX_FILE_AGE = "365000d"
"""A thousand years. By itself Spark passes over, without a word and for good, each file that is a week older than the
newest it has seen: files that come late, and all there are once a single one has a modification time of the future."""
CHECKPOINT = "_checkpoint"
PREFIX = "replication_pipeline_"
_FILES = "path string, modificationTime timestamp, length long, content binary"
_FOUND = "source string, path string, size_bytes long, modified timestamp"
_UNSETTLED = ("unread", "torn")
"""States of a file that may change soon: its file system failed, or it is still being copied."""


class Live:
    """Tables that follow live journals.

    Raises InputError if there is no such source, or an earlier version's stream wrote to the target.
    """

    def __init__(
        self, spark: SparkSession, source: str, target: str, *, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self._spark, self._tell = spark, tell
        self.tables = Tables(spark, target).require_layout()
        storage = self.tables.storage
        if storage.exists(storage.under("checkpoint")):
            raise InputError(
                f"{target}: an earlier version's stream wrote here, only sums of seconds: choose another directory"
            )
        found = storage.matching(source)
        if len(found) != 1:
            raise InputError(f"{source}: expected one directory, found {len(found)}")
        self._source = literal(found[0])
        self._news: list[Outcome] = []
        self._lock = threading.Lock()

    def start(self, *, once: bool, files_at_once: int = 100, every: str = "5 seconds") -> StreamingQuery:
        """Begin, or go on where the checkpoint says; `once`: stop when what is there is done."""
        reader = self._spark.readStream.format("binaryFile").schema(_FILES).option("pathGlobFilter", CLOSED_FILES)
        reader = reader.option("recursiveFileLookup", "true").option("maxFileAge", MAX_FILE_AGE)
        files = reader.option("maxFilesPerTrigger", files_at_once)
        writer = (
            listed(files.load(self._source))
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", self.tables.storage.under(CHECKPOINT))
            .queryName("pipeline stream")
        )
        trigger = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=every)
        return trigger.start()

    def look_again(self) -> None:
        """Take what could not be read before, or has changed since; costs little if there is nothing like that."""
        again = self._again()
        if again:
            self._take_rows(again)

    def news(self) -> list[Outcome]:
        """Return the outcomes since the last call."""
        with self._lock:
            found, self._news = self._news, []
        return found

    def _take(self, batch: DataFrame, _: int) -> None:
        rows = batch.collect()
        self._take_rows([*rows, *self._passed_over({row.path for row in rows}), *self._again()])

    def _passed_over(self, told: set[str]) -> list[Row]:
        """Return the files of this batch that were empty, as a power cut or a copy that has just begun leaves them.

        Spark notes them as offered and makes no row of them, so that nobody would ever hear of them.
        """
        storage = self.tables.storage
        log = storage.under(CHECKPOINT, "sources", "0")
        numbers = {name: int(name.partition(".")[0]) for name in storage.names(log) if name[:1].isdecimal()}
        newest = max(numbers, key=lambda name: numbers[name])
        # The first line is the format's version. A file that was compacted has the batches before, too.
        lines = [row.value for row in self._spark.read.text(literal(f"{log}/{newest}")).collect()]
        offered = [json.loads(line) for line in lines if line.startswith("{")]
        own = [one["path"] for one in offered if one["batchId"] == numbers[newest]]
        paths = {unquote(path).replace(":///", ":/", 1) for path in own}
        sizes = {path: storage.size(path) for path in sorted(paths - told)}
        return [
            Row(source=path.rpartition("/")[2], path=path, size_bytes=size, modified=None)
            for path, size in sizes.items()
            if size is not None
        ]

    def _take_rows(self, rows: list[Row]) -> None:
        files = [(row.source, row.path, row.size_bytes, row.modified) for row in rows]
        outcome = ingest_files(self._spark.createDataFrame(files, _FOUND), self.tables, tell=self._tell)
        with self._lock:
            self.tables = self.tables.now()
            self._news.append(outcome)

    def _again(self) -> list[Row]:
        """Return the files that were not settled and are still there; of torn ones those that have changed."""
        unsettled = self.tables.files.where(F.col("state").isin(list(_UNSETTLED)))
        found = []
        for row in unsettled.select("source", "path", "size_bytes", "modified", "state").collect():
            size = self.tables.storage.size(row.path)
            if size is not None and (row.state == "unread" or size != row.size_bytes):
                found.append(Row(**{**row.asDict(), "size_bytes": size}))
        return found


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
    names = ("time", "lag", "behind", "drain", "eta_seconds")
    now = [F.col(f"now.{name}").alias(name) for name in names]
    told = summed.join(spoken, on=list(ROLE), how="inner")
    return told.select(*ROLE, "rate", "omitted", *now, stalled.alias("stalled")).orderBy(*ROLE)


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
