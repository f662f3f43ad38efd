"""The bytes that each replica that is behind has still to bring, and the last minutes of the links that bring them.

A row per replica, and one per link, come to the driver. Quotas are bytes, and so is this: of two partitions one may
have messages of a kilobyte and the other of a megabyte. Invariant: a replica, and a link, is told by one of its ends
alone, the one that saw more; and a replica whose last word was "behind" is behind until it is seen in sync, on
whichever link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from ..jobs.lag import HELD_SECONDS
from ..jobs.link_ends import END, REPLICA, linked, of_one_end, seconds_of_ends
from ..tables import CachedFrames
from .pace import WINDOW_SECONDS, History

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, Row

    from ..tables import Tables
    from ..tables.scope import Scope

RECENT_SECONDS = 60
LINK = ("source", "destination")
PARTITION = ("destination", "topic", "partition")


class Waiting(NamedTuple):
    """A replica that is behind.

    role: the end that tells of it. began, last: its first and last second behind. lag: in messages, at the last.
    remaining: bytes now; None if no message of its source was seen. observed: of the last `RECENT_SECONDS` those in
    which it was behind; rate, written: bytes per second in these, brought and written by producers.
    """

    source: str
    destination: str
    topic: str
    partition: int
    role: str
    began: int
    last: int
    lag: int
    remaining: float | None
    observed: int
    rate: float
    written: float
    reached: int = 0
    """The last high watermark that is known: who is in sync has fetched as far."""

    @property
    def name(self) -> str:
        """``orders-0 from 101 to 102``."""
        return f"{self.topic}-{self.partition} from {self.source} to {self.destination}"

    @property
    def broker(self) -> tuple[int, str] | None:
        """The broker whose sidecar tells of it, and its role; None if it never said its id."""
        own = self.source if self.role == "leader" else self.destination
        return (int(own), self.role) if own.isdecimal() else None


class Behind(NamedTuple):
    """replicas: those that are behind at the end, or were when they fell silent. links: the last minutes of every link
    that had something to bring in them, with what producers wrote to those of `replicas`."""

    replicas: list[Waiting]
    links: list[History]


def waiting(tables: Tables, behind: DataFrame, now: int) -> Behind:
    """Return the state at the second `now`. behind: what `moves.times_behind` says of these tables."""
    with CachedFrames() as held:
        unfinished = held.once(_unfinished(behind))
        near = held.once(_lines(tables.within(_last(tables, now)).traffic.where("throttled"), unfinished))
        since = F.col("last") > now - RECENT_SECONDS
        recent = near.groupBy(*END).agg(
            F.sum(F.when(since, F.col("bytes"))).alias("bytes"), F.sum(F.when(since, F.col("grown"))).alias("grown"),
            F.first("size").alias("recent_size"),
        )  # fmt: skip
        found = unfinished.join(recent, on=list(END), how="left")
        rows = found.withColumn("size", F.coalesce("recent_size", "size")).orderBy(*REPLICA).collect()
        replicas = _still_unfinished(tables, [_waiting(row, now) for row in rows], now)
        written = near.groupBy(*LINK, "role", "block").agg(
            F.min("first").alias("first"), (F.max("last") - F.min("first") + 1).alias("seconds"),
            F.sum(F.col("grown") * F.coalesce("size", F.lit(0.0))).alias("bytes"),
        )  # fmt: skip
        lines = F.array_sort(F.collect_list(F.struct("first", "seconds", "bytes"))).alias("lines")
        by_link = {(row.source, row.destination, row.role): row.lines for row in
                   written.groupBy(*LINK, "role").agg(lines).collect()}  # fmt: skip
    return Behind(replicas, _histories(tables, now, by_link))


def _last(tables: Tables, now: int) -> Scope:
    return tables.scope._replace(since=max(now - WINDOW_SECONDS + 1, tables.scope.since or 0), until=now + 1)


def _histories(
    tables: Tables, now: int, lines: Mapping[tuple[str, str, str], Sequence[tuple[int, int, float]]]
) -> list[History]:
    seconds = linked(tables.within(_last(tables, now)).seconds.where("throttled"))
    told = F.max("time").over(Window.partitionBy("broker", "role")).alias("told")
    each = seconds.select(*LINK, "role", "time", told, "in_sync", "record_bytes").where(~F.col("in_sync"))
    ends = each.groupBy(*LINK, "role", "time").agg(F.max("told").alias("told"), F.sum("record_bytes").alias("bytes"))
    links = ends.groupBy(*LINK, "role").agg(
        F.max("told").alias("told"), F.sum("bytes").alias("bytes"),
        F.map_from_entries(F.collect_list(F.struct("time", "bytes"))).alias("gained"),
    )  # fmt: skip
    found = {}
    for row in links.orderBy("bytes", "role", ascending=[True, False]).collect():
        # The one with more bytes comes last; of two alike the follower's, which is nearer to what arrived.
        first = min(row.gained)
        gained = tuple(float(row.gained.get(at, 0)) for at in range(first, row.told + 1))
        written = tuple((float(line[1]), line[2]) for line in lines.get((row.source, row.destination, row.role), ()))
        asked = frozenset(row.gained)
        found[row.source, row.destination] = History(row.source, row.destination, first, gained, written, asked)
    return [found[link] for link in sorted(found)]


def _still_unfinished(tables: Tables, found: list[Waiting], now: int) -> list[Waiting]:
    """Leave out replicas that fell silent and were seen in sync since: by the other end, from another leader, or after
    no quota selected them any more."""
    silent = [one for one in found if one.last < now - HELD_SECONDS]
    if not silent:
        return found
    spark = tables.spark
    keys = spark.createDataFrame(
        [(one.destination, one.topic, one.partition, one.began, one.reached) for one in silent],
        "destination string, topic string, partition long, began long, reached long",
    )
    later = tables.within(tables.scope._replace(since=min(one.began for one in silent), brokers=()))
    in_sync = linked(later.traffic.where("in_sync")).select(*PARTITION, "time", "fetch_offset")
    seen = in_sync.join(F.broadcast(keys), on=list(PARTITION)).where("time >= began and fetch_offset >= reached")
    done = {tuple(row) for row in seen.select(*PARTITION).distinct().collect()}
    return [one for one in found if one not in silent or (one.destination, one.topic, one.partition) not in done]


def _waiting(row: Row, now: int) -> Waiting:
    # The clock of one that says it ended later is ahead.
    ended = min(row.ended, now)
    observed = max(ended - max(row.began, now - RECENT_SECONDS + 1) + 1, 1)
    size = row.size or 0.0
    rate, written = (row.bytes or 0) / observed, (row.grown or 0) * size / observed
    # A line is about up to fifteen seconds: one end may be told of up to a later second than another.
    left = max(row.lag * size - (rate - written) * (now - ended), 0.0)
    return Waiting(
        row.source, row.destination, row.topic, row.partition, row.role, row.began, row.ended, row.lag,
        None if row.size is None else left, observed, rate, written, row.to_watermark,
    )  # fmt: skip


def _unfinished(episodes: DataFrame) -> DataFrame:
    """Return each replica's last time behind, if that did not end with it in sync, and the `size` of a message: of
    those brought in that time, or of its partition's, or of its source's."""
    messages = F.greatest(F.col("to_offset") - F.col("from_offset"), F.lit(0))
    told = episodes.withColumn("messages", messages)

    def size_of(*keys: str) -> Column:
        over = Window.partitionBy(*keys)
        moved = F.when(F.col("messages") > 0, F.col("bytes"))
        return F.try_divide(F.sum(moved).over(over), F.sum("messages").over(over))

    own = F.try_divide(F.when(F.col("messages") > 0, F.col("bytes")), F.col("messages"))
    sized = told.withColumn("size", F.coalesce(own, size_of("source", "topic", "partition"), size_of("source")))
    latest = sized.withColumn("turn", F.row_number().over(Window.partitionBy(*END).orderBy(F.desc("began"))))
    # One that was behind again later, from another leader say, is told by that.
    newest = F.max("began").over(Window.partitionBy(*PARTITION))
    chosen = of_one_end(latest.where("turn = 1").withColumn("newest", newest), "bytes", "ended")
    lag = F.greatest(F.coalesce(F.col("to_watermark") - F.col("to_offset"), F.lit(0)), F.lit(0))
    last = chosen.where(~F.col("finished") & (F.col("newest") <= F.col("ended")))
    reached = F.greatest(F.coalesce("to_watermark", F.lit(0)), F.coalesce("to_offset", F.lit(0)))
    return last.select(*END, "began", "ended", lag.alias("lag"), "size", reached.alias("to_watermark")).where("lag > 0")


def _lines(traffic: DataFrame, unfinished: DataFrame) -> DataFrame:
    """Return of each journal line and either end of these replicas `first` and `last` second, `bytes`, by how many
    messages the log has `grown`, and the `size` of one: of those brought meanwhile, else as `unfinished` says it."""
    wanted = unfinished.select(*REPLICA, F.col("size").alias("before"))
    seconds = seconds_of_ends(traffic).join(F.broadcast(wanted), on=list(REPLICA))
    known = F.when(F.col("high_watermark") >= 0, F.col("high_watermark"))
    in_order = Window.partitionBy(*END).orderBy("time").rowsBetween(Window.unboundedPreceding, -1)
    grown = F.greatest(known - F.max(known).over(in_order), F.lit(0))
    # Where a replica stood before its first line may not be known: then its bytes are of no known messages.
    messages = F.greatest(F.col("fetch_offset_reached") - F.col("fetch_offset_before"), F.lit(0))
    lines = seconds.withColumns({"grown": grown, "messages": messages}).groupBy(*END, "before", "block").agg(
        F.min("time").alias("first"), F.max("time").alias("last"), F.sum("bytes").alias("bytes"),
        F.coalesce(F.sum("grown"), F.lit(0)).alias("grown"), F.sum("messages").alias("messages"),
    )  # fmt: skip
    whole = Window.partitionBy(*END)
    told = F.sum(F.when(F.col("messages") > 0, F.col("bytes"))).over(whole)
    size = F.coalesce(F.try_divide(told, F.sum("messages").over(whole)), F.col("before"))
    return lines.withColumn("size", size).drop("before", "messages")
