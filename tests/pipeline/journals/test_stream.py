"""Live journals: the tables that `ingest` makes of them, whatever came when; and what they say now."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark.testing import assertDataFrameEqual

from pipeline.commands.stream import watch
from pipeline.journals import stream
from pipeline.journals.ingest import find_files, ingest
from pipeline.journals.stream import Live, write_textfile
from pipeline.questions.present_state import exposition, state
from pipeline.tables import Tables
from tests.pipeline.journal_files import FIRST, traffic_line, write_file

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

IN_2099 = 4_070_908_800


def lines(first: int, end: int, broker: int = 101, **values: Any) -> list[str]:
    """10 messages a second of 3000, in two partitions."""
    return [
        traffic_line(
            FIRST + at, broker=broker, partitions=(0, 1), fetch_offset=10 * at, high_watermark=3000, omitted=1, **values
        )
        for at in range(first, end)
    ]


class Watched(NamedTuple):
    live: Live
    once: Tables
    """What one ingest of all the files makes of them."""
    complete: list[bool]
    said: str


@pytest.fixture(scope="module")
def watched(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """Stopped twice in between: 101's first file with a line of 2099 in it; then 102's, five minutes late, a copy of
    101's, its next file, and one that is being copied; then the whole of that, and no file that is new."""
    folder = tmp_path_factory.mktemp("watched")
    journal, target = folder / "journal", folder / "tables"
    write_file(journal, number=1, lines=[*lines(0, 400), traffic_line(IN_2099, tick=401)])
    write_file(journal, number=9, lines=lines(400, 420), name_ends=".open.ndjson.gz", closed=False)
    complete = []
    write = folder / "elsewhere"

    def batch() -> None:
        live = Live(spark, str(journal), str(target))
        complete.append(watch(live, None, once=True))

    batch()
    write_file(journal, broker=102, number=1, lines=lines(0, 100, 102, peer="101", role="follower"))
    shutil.copytree(journal, journal / "copy", ignore=shutil.ignore_patterns("*open*", "*102*"))
    being_copied = write_file(journal, broker=103, number=1, lines=lines(0, 100, 103))
    whole = being_copied.read_bytes()
    being_copied.write_bytes(whole[: len(whole) // 2])
    write_file(journal, number=2, lines=lines(400, 500))
    batch()
    being_copied.write_bytes(whole)
    live = Live(spark, str(journal), str(target))
    complete.append(watch(live, folder / "pipeline.prom", once=True))
    for path in journal.glob("*.open.*"):
        path.unlink()
    ingest(spark, [str(journal)], str(write))
    return Watched(live, Tables(spark, str(write)), complete, (folder / "pipeline.prom").read_text())


@pytest.mark.parametrize("name", ["traffic", "seconds", "events"])
def test_the_tables_are_those_of_one_ingest(watched: Watched, name: str) -> None:
    """Late by five minutes, fed twice, cut off at first, beside a line of the year 2099: each row once, none lost."""
    assertDataFrameEqual(getattr(watched.live.tables, name), getattr(watched.once, name))


def test_each_time_it_says_whether_anything_is_missing(watched: Watched) -> None:
    """A line set aside, a file that ends too soon, and nothing."""
    assert watched.complete == [False, False, True]


def test_the_sum_is_that_of_the_lines(watched: Watched) -> None:
    rows = watched.live.tables.seconds.groupBy("broker").sum("record_bytes").collect()
    assert {row.broker: row[1] for row in rows} == {101: 500 * 2000, 102: 100 * 2000, 103: 100 * 2000}


def test_a_line_of_the_future_is_set_aside_counted_and_said(watched: Watched) -> None:
    (row,) = watched.live.tables.quarantine.collect()
    assert row.problem == "its clock is in the future: 2099-01-01"
    states = {row.source.split("-")[1]: (row.state, row.quarantined) for row in watched.live.tables.files.collect()}
    assert states["103"] == ("whole", 0)
    assert watched.said.endswith('replication_pipeline_files{state="whole"} 4\n')


def test_what_is_said_is_of_now(watched: Watched) -> None:
    (now, *_) = state(watched.live.tables)
    assert (now.broker, now.role, now.time - FIRST) == (101, "leader", 499)
    assert (now.rate, now.behind, now.lost) == (pytest.approx(2036.0), 0, 0)


@pytest.mark.parametrize(
    "modified", [(FIRST - 8 * 86_400, FIRST), (FIRST, IN_2099)], ids=["eight days late", "beside a file of 2099"]
)
def test_no_file_is_passed_over_for_its_modification_time(
    spark: SparkSession, tmp_path: Path, modified: tuple[int, int]
) -> None:
    """The newer file comes first. The older one comes after a restart, and is offered as any other is."""
    journal, older, newer = tmp_path / "journal", *modified
    for broker, at in ((101, newer), (102, older)):
        path = write_file(journal, broker=broker, lines=lines(0, 5, broker))
        os.utime(path, (at, at))
        live = Live(spark, str(journal), str(tmp_path / "tables"))
        assert watch(live, None, once=True)
    assert {row.broker for row in live.tables.seconds.collect()} == {101, 102}


def test_an_empty_file_is_torn_until_it_is_filled(spark: SparkSession, tmp_path: Path) -> None:
    """As a power cut leaves it, or a copy that has just begun, and the stream need not be started anew."""
    journal = tmp_path / "journal of +1%"
    write_file(journal, broker=101, lines=lines(0, 5))
    filled = write_file(journal, broker=102, lines=lines(0, 5, 102))
    whole = filled.read_bytes()
    filled.write_bytes(b"")
    live = Live(spark, str(journal), str(tmp_path / "tables"))
    assert live.look().files == {"whole": 1, "torn": 1}
    filled.write_bytes(whole)
    assert live.look().files == {"whole": 1}
    assert {row.broker for row in live.tables.seconds.collect()} == {101, 102}


def test_a_file_of_another_cluster_is_left_out_and_said_and_the_stream_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One ended it. What is no journal at all did not."""
    journal = tmp_path / "journal"
    write_file(journal, broker=101, lines=lines(0, 5), cluster="A")
    live = Live(spark, str(journal), str(tmp_path / "tables"))
    assert live.look().files == {"whole": 1}
    other = write_file(journal, broker=201, lines=lines(0, 5, 201), cluster="B")
    copy = write_file(journal / "b", broker=101, lines=lines(0, 9, run="b"), run="b", cluster="A")
    (journal / "journal-9.ndjson.gz").write_bytes(b"neither")
    write_file(journal, broker=102, lines=lines(0, 5, 102), cluster="A")
    found = live.look()
    assert found.files == {"whole": 1, "unreadable": 1, "foreign": 2}
    assert not found.is_complete
    told = "\n".join(found.troubles)
    assert f"{other}: expected lines of cluster A as in" in told
    assert f"{copy}: expected lines of run a as in" in told
    assert "it was left out" in told
    assert live.look().files == {}
    assert {row.broker for row in live.tables.seconds.collect()} == {101, 102}
    assert "201" not in {row.source.split("-")[1] for row in live.tables.files.collect()}


def test_a_look_asks_spark_for_nothing_where_nothing_came(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It listed 20 000 files each time, for 9 seconds of CPU. Nor does a file that stays torn bring it back."""
    journal = tmp_path / "journal"
    write_file(journal / "101", lines=lines(0, 5))
    torn = write_file(journal / "102", broker=102, lines=lines(0, 5, 102))
    whole = torn.read_bytes()
    torn.write_bytes(whole[:-20])
    again = Live(spark, str(journal), str(tmp_path / "tables"))
    assert again.look().files == {"whole": 1, "torn": 1}
    live = Live(spark, str(journal), str(tmp_path / "tables"))
    assert live.look().files == {}
    with monkeypatch.context() as patch:
        patch.setattr(stream, "find_files", None)
        assert live.look().files == {}
    new = write_file(journal / "101", number=2, lines=lines(5, 9))
    listed: list[list[str]] = []

    def listing(*arguments: Any, **options: Any) -> Any:
        listed.append(arguments[2])
        return find_files(*arguments, **options)

    monkeypatch.setattr(stream, "find_files", listing)
    assert live.look().files == {"whole": 1}
    torn.write_bytes(whole)
    assert live.look().files == {"whole": 1}
    assert listed == [[f"file:{new}"], [f"file:{torn}"]]


def test_a_bad_file_is_read_once_until_it_changes(spark: SparkSession, tmp_path: Path) -> None:
    """Looked at every five seconds, its account would grow for ever."""
    bad = write_file(tmp_path / "journal", lines=lines(0, 5))
    whole = bad.read_bytes()
    middle = len(whole) // 2
    bad.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    live = Live(spark, str(tmp_path / "journal"), str(tmp_path / "tables"))
    assert [live.look().files for _ in range(2)] == [{"corrupt": 1}, {}]
    bad.write_bytes(whole)
    assert live.look().files == {"whole": 1}


def test_without_an_end_it_begins_on_a_fresh_target_and_takes_what_comes(spark: SparkSession, tmp_path: Path) -> None:
    journal, said = tmp_path / "journal", tmp_path / "pipeline.prom"
    journal.mkdir()

    class Ended(Exception):
        """The test ends the loop where it pauses."""

    pauses = []

    def pause(_: float) -> None:
        pauses.append(said.exists())
        if len(pauses) == 1:
            write_file(journal, lines=lines(0, 100))
        if len(pauses) == 3:
            raise Ended

    with pytest.raises(Ended):
        watch(Live(spark, str(journal), str(tmp_path / "tables")), said, once=False, sleep=pause)
    assert pauses == [False, True, True]
    text = said.read_text()
    remaining = float(text.partition('replication_pipeline_remaining_bytes{broker="101",role="leader"} ')[2].split()[0])
    assert remaining == pytest.approx(2 * (3000 - 990) * 100, rel=0.02)
    eta = float(text.partition('replication_pipeline_eta_seconds{broker="101",role="leader"} ')[2].split()[0])
    assert eta == pytest.approx(201, rel=0.02)


def test_a_stall_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    """10 messages a second until second 30, and then none while producers go on."""
    rows = [traffic_line(FIRST + at, fetch_offset=10 * at, high_watermark=3000) for at in range(30)]
    still = {"fetch_offset": 290, "record_bytes": 0, "omitted": 5}
    rows += [traffic_line(FIRST + at, high_watermark=3000 + at, **still) for at in range(30, 75)]
    write_file(tmp_path / "journal", lines=rows)
    live = Live(spark, str(tmp_path / "journal"), str(tmp_path / "tables"))
    live.look()
    (now,) = state(live.tables)
    assert (now.stalled, now.eta_seconds, now.behind) == (True, None, 1)
    text = exposition([now], [("whole", 3), ("unread", 1)])
    assert 'replication_pipeline_stalled{broker="101",role="leader"} 1\n' in text
    assert "eta_seconds{" not in text
    assert 'replication_pipeline_files{state="unread"} 1\n' in text


def test_the_textfile_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.prom"
    for text in ("one\n", "two\n"):
        write_textfile(path, text)
    assert path.read_text() == "two\n"
    assert [found.name for found in tmp_path.iterdir()] == ["pipeline.prom"]
