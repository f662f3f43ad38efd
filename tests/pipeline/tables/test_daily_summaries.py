"""What is kept of whole days is what reading each of their seconds says, however much is kept, wherever days end."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from journal_schema import LINE_SECONDS
from pipeline.cli import main
from pipeline.commands.upkeep import SUMMARIES
from pipeline.jobs import lag, partition_sizes, times_behind
from pipeline.jobs.link_ends import END, REPLICA, of_one_end, seconds_of_ends
from pipeline.questions import who_was_starved
from pipeline.tables import Tables, delta
from pipeline.tables import tables as module
from pipeline.tables.daily_summaries import DAY_SECONDS, fingerprints, read_summary, summarise
from pipeline.tables.schema import EVENTS, FILES, TRAFFIC
from pipeline.tables.scope import Scope
from pipeline.tables.tables import EVERYTHING
from pipeline.tables.write_lines import add_accounts
from tests.pipeline.frames import quotas, traffic
from tests.pipeline.journal_files import FIRST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long

SEED = 20
MIDNIGHT = DAY_SECONDS - FIRST % DAY_SECONDS
"""The first after FIRST, in seconds since then."""
DAYS = 3
BLOCKS_BEGIN = 7
"""Seconds after FIRST: the midnights are within blocks."""
REPLICAS = 20


def replica(numbers: random.Random, partition: int) -> Iterator[dict[str, Any]]:
    """Some minutes around a midnight, or all around two: behind, in sync, both in a second, silent, gone and back."""
    broker, peer = numbers.sample((101, 102, 103), 2)
    own = {"broker": broker, "peer": str(peer), "role": numbers.choice(("leader", "follower")), "partition": partition}
    nights = [MIDNIGHT + DAY_SECONDS * night for night in numbers.choice(((0,), (1,), (0, 1)))]
    offset, watermark = 0, numbers.randrange(3000)
    for night in nights:
        at = night - numbers.randrange(150)
        behind = numbers.random() < 0.8
        while at < night + 150:
            offset = min(offset + numbers.randrange(30), watermark) if numbers.random() < 0.95 else max(offset - 50, 0)
            watermark += numbers.randrange(20)
            known = {"fetch_offset": offset, "high_watermark": watermark if numbers.random() < 0.97 else -1}
            known["line_tick"] = at - (at - BLOCKS_BEGIN) % LINE_SECONDS
            # Now and then the start of the log has passed the replica.
            known["log_start_offset"] = offset + 1 if at % 67 == 0 else 0
            counts = {"record_bytes": numbers.choice((0, 1, 5)) * 1000, "omitted": numbers.choice((0, 1, 3))}
            if numbers.random() < 0.012:
                behind = not behind
            yield {**own, **known, **counts, "at": at, "in_sync": not behind}
            if numbers.random() < 0.02:
                yield {**own, "fetch_offset": watermark, "high_watermark": watermark, "at": at, "in_sync": behind,
                       "line_tick": known["line_tick"]}  # fmt: skip
            at += numbers.choice((1,) * 600 + (2, 14, 29, 30, 31, 45))


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    """As `ingest` leaves them, but that the lines are unfolded already."""
    root = tmp_path_factory.mktemp("summaries")
    numbers = random.Random(SEED)
    rows = [row for partition in range(REPLICAS) for row in replica(numbers, partition)]
    found = Tables(spark, str(root))
    for name, schema in (("lines", TRAFFIC), ("events", EVENTS), ("files", FILES)):
        delta.create(spark, found.path(name), schema, ["date"] if "date" in schema.names else [])
    delta.append(found.path("events"), quotas(spark, [(0, 20_000.0)]))
    write(found, traffic(spark, rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(module.VIEWS, "traffic", lambda lines: lines)
        patch.setitem(module.SCHEMAS, "lines", TRAFFIC)
        yield found


def write(tables: Tables, rows: DataFrame) -> None:
    """Rows that are accounted for."""
    delta.append(tables.path("lines"), rows)
    account = {"source": "journal-101.ndjson.gz", "state": "whole", "lines": 0, "quarantined": 0, "taken": FIRST}
    add_accounts(tables.now(), tables.spark.createDataFrame([account], FILES))


def told(tables: Tables, *, scope: Scope = EVERYTHING) -> list[list[tuple[Any, ...]]]:
    part = tables.within(scope)
    behind = times_behind.whole(read_summary(part, times_behind.SUMMARY)).drop("number")
    behind = behind.withColumn("minutes", F.array_sort("minutes"))
    frames = (
        behind,
        lag.added_up(read_summary(part, lag.SUMMARY)),
        who_was_starved.shared(read_summary(part, who_was_starved.SUMMARY)),
        partition_sizes.of_tables(part),
    )
    return [sorted(map(tuple, frame.collect()), key=repr) for frame in frames]


def worked_out(tables: Tables, *, scope: Scope = EVERYTHING) -> list[list[tuple[Any, ...]]]:
    """The same of every second at once, as if a day had no end."""
    rows = tables.within(scope).traffic
    behind = times_behind.whole(times_behind.SUMMARY.of(rows)).drop("number")
    behind = behind.withColumn("minutes", F.array_sort("minutes"))
    replicas = replicas_at_once(rows)
    frames = (
        behind,
        lag.sum_replica_lag(lag.per_replica(rows)),
        who_was_starved.shared(who_was_starved.by_minute(rows)),
        replicas,
    )
    return [sorted(map(tuple, frame.collect()), key=repr) for frame in frames]


def replicas_at_once(rows: DataFrame) -> DataFrame:
    """As `sizes.whole`, over all seconds of each replica in their order."""
    cut = (F.floor(F.col("time") / DAY_SECONDS), F.floor((F.col("time") - FIRST - BLOCKS_BEGIN) / LINE_SECONDS))
    block = Window.partitionBy(*REPLICA, *cut).orderBy("time")
    block = block.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    known = F.when(F.col("high_watermark") >= 0, F.col("high_watermark"))
    since = F.first("fetch_offset_before").over(block)
    brought = F.last("fetch_offset_reached").over(block) - since
    end = Window.partitionBy(*END)
    size, number = F.sum("bytes").over(end).alias("bytes"), F.count("*").over(end).alias("seconds")
    seconds = of_one_end(seconds_of_ends(rows), size, number).withColumns(
        {
            "told": (brought >= 0) & (F.max("log_start_offset").over(block) <= since),
            "messages": F.when(F.col("time") == F.max("time").over(block), brought),
        }
    )
    return seconds.groupBy(*REPLICA).agg(
        F.min("time"), F.max("time"), F.sum("bytes"),
        *(F.coalesce(F.sum(F.when(F.col("told"), F.col(name))), F.lit(0)) for name in ("bytes", "messages")),
        F.max_by(known - F.greatest("log_start_offset", F.lit(0)), "time"),
    )  # fmt: skip


def read_of_traffic(tables: Tables) -> set[str]:
    """The days of which a job reads each second."""
    paths = read_summary(tables.now(), times_behind.SUMMARY).inputFiles()
    return {path.split("/")[-2] for path in paths if "/lines/" in path}


def date(night: int) -> str:
    return f"{datetime.fromtimestamp(FIRST + MIDNIGHT + night * DAY_SECONDS, UTC):%Y-%m-%d}"


def test_what_is_kept_is_not_read_again_and_says_the_same(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a run that was killed between two summaries, the next one does the rest."""
    summarise(tables, SUMMARIES[:1])
    assert main(["summarise", tables.storage.root, "--master", "local[2]"]) == 0
    done = [line.split()[1] for line in capsys.readouterr().out.splitlines()]
    assert done == ["0"] + [str(DAYS)] * (len(SUMMARIES) - 1)
    assert read_of_traffic(tables) == set()
    expected = worked_out(tables.now())
    assert all(len(rows) > 9 for rows in expected)
    assert told(tables.now()) == expected


@pytest.mark.parametrize("scope", [EVERYTHING, Scope(FIRST + MIDNIGHT - 40, FIRST + MIDNIGHT + DAY_SECONDS + 20)])
def test_late_lines_cost_their_days_and_those_beside_them(tables: Tables, spark: SparkSession, scope: Scope) -> None:
    if scope is EVERYTHING:
        late = replica(random.Random(SEED + 1), REPLICAS)
        rows = [{**row, "broker": 102, "peer": "101"} for row in late if row["at"] < MIDNIGHT]
        write(tables, traffic(spark, rows))
        # What is said of a day depends on the seconds around its midnights: the day after is not known any more.
        assert read_of_traffic(tables) >= {f"date={date(night)}" for night in range(-1, DAYS - 1)}
    assert told(tables.now(), scope=scope) == worked_out(tables.now(), scope=scope)


def test_a_fingerprint_is_of_the_day_and_of_those_beside_it() -> None:
    days = [datetime(2026, 11, number, tzinfo=UTC).date() for number in range(1, 6)]
    before = {day: ["a"] for day in days}
    after = {**before, days[2]: ["a", "b"]}
    same = {day for day, of in fingerprints(before).items() if fingerprints(after)[day] == of}
    assert same == {days[0], days[4]}
