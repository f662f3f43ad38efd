"""What is asked of a day and a broker is answered from that day and broker, as it is answered from everything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

import pytest
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from journal_schema import Kind
from pipeline.cli import main
from pipeline.commands.quantities import MOMENT, Moment
from pipeline.jobs import audit, lag, rates
from pipeline.journals.ingest import ingest
from pipeline.tables import Tables
from pipeline.tables.scope import Scope
from tests.pipeline.journal_files import FIRST, event_line, traffic_line, write_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long

DAY = 86_400
DAYS = 3
BUSY_SECONDS = 150
MASTER = ["--master", "local[2]"]


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Two brokers that drain two and a half minutes on each of three days; only the first day tells their quota."""
    folder = tmp_path_factory.mktemp("scope")
    for broker in (101, 102):
        quota = event_line(
            Kind.QUOTA, FIRST, broker=broker, role="leader", bytes_per_second=1200.0, policy="strict", enforce=True,
            selection="*", reason="start",
        )  # fmt: skip
        for day in range(DAYS):
            lines = [
                traffic_line(
                    FIRST + day * DAY + at, broker=broker, peer=str(203 - broker), fetch_offset_before=[5 * at],
                    fetch_offset=5 * at + 5, omitted=1, record_bytes=1000 + 7 * at,
                )
                for at in range(BUSY_SECONDS)
            ]  # fmt: skip
            first = [quota] if day == 0 else []
            write_file(folder / "journal", lines=[*first, *lines], broker=broker, number=day + 1)
    outcome = ingest(spark, [str(folder / "journal")], str(folder / "tables"), now=FIRST + DAYS * DAY)
    assert outcome.is_complete
    return Tables(spark, str(folder / "tables"))


PARTS = (
    Scope(FIRST + DAY + 100, FIRST + DAY + 140, (101,)),
    Scope(since=FIRST + 2 * DAY + 3),
    Scope(until=FIRST + 50, brokers=(102,)),
)


def bytes_read(rows: DataFrame) -> int:
    return sum(Path(unquote(urlparse(name).path)).stat().st_size for name in rows.inputFiles())


@pytest.mark.parametrize("scope", PARTS)
def test_only_its_days_are_read(whole: Tables, scope: Scope) -> None:
    """One of three days."""
    part = whole.within(scope)
    for name in ("traffic", "seconds"):
        share = bytes_read(getattr(part, name)) / bytes_read(getattr(whole, name))
        assert share == pytest.approx(1 / 3, rel=0.1), name


@pytest.mark.parametrize("scope", PARTS)
def test_windows_and_trends_are_those_of_everything(whole: Tables, scope: Scope) -> None:
    before = whole.within(scope).reaching_back(lag.LOOKS_BACK_SECONDS)

    def seconds(tables: Tables) -> DataFrame:
        return audit.seconds_with_quota(tables.seconds, tables.events)

    def windows(tables: Tables) -> DataFrame:
        return audit.windows(seconds(tables))

    def progress(tables: Tables) -> DataFrame:
        replicas = lag.per_replica(tables.traffic.where("throttled"))
        return lag.progress(lag.sum_replica_lag(replicas), tables.events).drop("done")

    def windowed(tables: Tables) -> DataFrame:
        """SimpleRate's slots are taken in turns, so that eleven seconds of traffic have to be known."""
        found = rates.windowed(rates.per_second(tables.seconds, ["broker", "role"]), ["broker", "role"])
        return found.where((F.col("time") - FIRST) % DAY >= rates.WINDOW_SECONDS)

    for job in (windows, progress, windowed):
        expected = scope.cut(job(whole)).where(F.col("time") < (scope.until or FIRST + DAYS * DAY))
        assertDataFrameEqual(scope.cut(job(before)), expected)


def test_a_quota_that_was_told_days_before_holds(whole: Tables, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(whole.storage.root)
    assert main(["audit", place, "--since", "10m", "--broker", "102", *MASTER]) == 0
    header, row = [line.split() for line in capsys.readouterr().out.partition("\n\n")[0].splitlines()]
    found = dict(zip(header, row, strict=False))
    assert (found["broker"], found["limit"], found["seconds"]) == ("102", "1200.000", str(BUSY_SECONDS))


def test_the_other_jobs_take_a_scope_as_well(whole: Tables, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(whole.storage.root)
    assert main(["moves", place, "--since", "2026-11-22", "--until", "2026-11-23", *MASTER]) == 0
    header, *found = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[header.index("began")] for row in found] == [str(FIRST + DAY)] * 2
    assert main(["lag", place, "--until", "2026-11-21T08:41:00Z", "--broker", "101", *MASTER]) == 0
    header, row = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert (row[header.index("time")], row[header.index("lag")]) == (str(FIRST + 59), str(900 - 300))
    assert main(["replay", place, "--since", "2026-11-23", "--leader", "10kB/s", *MASTER]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 2


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--since", "yesterday"], 2, "expected something like 2026-11-21T03:10:00Z, 2026-11-21, 03:10"),
        (["--since", "2026-11-22", "--until", "2026-11-21"], 1, "2026-11-22T00:00:00Z is not before --until 2026-11-2"),
    ],
)
def test_a_scope_that_is_none_is_refused(
    whole: Tables, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, message: str
) -> None:
    assert main(["audit", str(whole.storage.root), *arguments, *MASTER]) == status
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-21T08:40:00Z", FIRST),
        ("2026-11-21 09:40:00+01:00", FIRST),
        ("2026-11-21", FIRST - FIRST % DAY),
        ("08:40", FIRST),
        ("08:41", FIRST - DAY + 60),
        ("30s", FIRST + 1),
        ("1d", FIRST + 31 - DAY),
    ],
)
def test_moments_are_read_as_people_write_them(text: str, seconds: int) -> None:
    """The last second recorded being thirty seconds after FIRST."""
    moment = MOMENT.convert(text, None, None)
    assert isinstance(moment, Moment)
    assert moment.resolve(FIRST + 30) == seconds
