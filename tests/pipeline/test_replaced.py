"""Who has listed a day reads it as it was, whoever writes it anew; nothing is read twice, nothing stays for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline import replaced, staging, times_behind
from pipeline.committing import SEAL, STAGING, begin, remove_replaced
from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.replaced import REPLACED, living
from pipeline.sole_writer import sole_writer
from pipeline.storage import Storage
from pipeline.summaries import read, summarise
from pipeline.tables import EARLIER_LAYOUT, LAYOUT, Tables
from tests.pipeline.flaky import SCHEME, flaky
from tests.pipeline.journals import FIRST, traffic_line, write_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES = ("traffic", "seconds", "events")
DAY = "date=2026-11-21/broker=101"


def fed(spark: SparkSession, out: str, folder: Path, number: int) -> None:
    """A second of a replica, as a file of its own; and one of another broker."""
    for broker in (101, 102):
        line = traffic_line(FIRST + number, broker=broker, partitions=range(2))
        write_file(folder / str(number), broker=broker, number=number, lines=[line])
    ingest(spark, [str(folder / str(number))], out)


def seconds_of(rows: DataFrame) -> list[int]:
    return sorted(row.time - FIRST for row in rows.where("broker = 101").select("time").collect())


def files_on_disk(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*.parquet")}


def two_files_a_day(spark: SparkSession, folder: Path, *, scheme: str = "") -> str:
    """Tables whose days have two files each, which the next ingest writes anew."""
    root = f"{scheme}{folder / 'tables'}"
    for number in (1, 2):
        fed(spark, root, folder, number)
    return root


@pytest.fixture
def root(spark: SparkSession, tmp_path: Path) -> str:
    return two_files_a_day(spark, tmp_path)


@pytest.fixture(autouse=True)
def crowded_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "MOST_FILES", 2)


@pytest.mark.parametrize("scheme", ["", f"{SCHEME}:"], ids=["local", "another file system"])
def test_who_listed_a_day_before_it_was_written_anew_reads_it_as_it_was(
    spark: SparkSession, tmp_path: Path, scheme: str
) -> None:
    """And who lists it afterwards, each row once: by the whole table, by dates, by brokers."""
    flaky(spark)
    root = two_files_a_day(spark, tmp_path, scheme=scheme)
    before = Tables(spark, root)
    listed = {name: before.read(name) for name in (*NAMES, "files")}
    fed(spark, root, tmp_path, 3)
    assert seconds_of(listed["traffic"]) == [1, 1, 2, 2]
    assert seconds_of(listed["seconds"]) == [1, 2]
    assert listed["events"].count() == 8
    assert listed["files"].count() == 4
    after = Tables(spark, root)
    one = after.within(after.scope._replace(brokers=(101,)))
    part = after.within(after.scope._replace(since=FIRST + 2))
    assert seconds_of(after.traffic) == seconds_of(one.traffic) == [1, 1, 2, 2, 3, 3]
    assert seconds_of(part.traffic) == [2, 2, 3, 3]
    assert seconds_of(after.seconds) == seconds_of(after.recent("seconds")) == [1, 2, 3]
    assert (after.events.count(), after.files.count()) == (12, 6)


def test_what_is_replaced_again_is_read_by_each_as_it_was(spark: SparkSession, tmp_path: Path, root: str) -> None:
    listed = []
    for number in range(3, 6):
        listed.append(Tables(spark, root).traffic)
        fed(spark, root, tmp_path, number)
    for found, last in zip(listed, range(2, 5), strict=True):
        assert seconds_of(found) == sorted([*range(1, last + 1)] * 2)
    assert seconds_of(Tables(spark, root).traffic) == sorted([*range(1, 6)] * 2)


def test_whoever_writes_after_the_time_removes_it_also_with_nothing_new(
    spark: SparkSession, tmp_path: Path, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "tables"
    before = files_on_disk(place / "traffic" / DAY)
    fed(spark, root, tmp_path, 3)
    old = files_on_disk(place / "traffic" / DAY)
    assert before < old
    ingest(spark, [str(tmp_path / "3")], root)
    assert files_on_disk(place / "traffic" / DAY) == old
    monkeypatch.setattr(replaced, "KEPT_SECONDS", 0)
    monkeypatch.setattr(replaced, "KEPT_FILES_SECONDS", 0)
    ingest(spark, [str(tmp_path / "3")], root)
    assert files_on_disk(place / "traffic" / DAY) == old - before
    assert len(files_on_disk(place / "files")) == 1
    assert json.loads((place / REPLACED).read_text("utf-8")) == {}
    assert seconds_of(Tables(spark, root).traffic) == [1, 1, 2, 2, 3, 3]


def test_a_clock_that_was_ahead_keeps_nothing_for_ever(spark: SparkSession, tmp_path: Path) -> None:
    """What was replaced in 2099 is not of the last hour."""
    storage = Storage(spark, str(tmp_path))
    storage.write_text(storage.under("traffic/a.parquet"), "")
    storage.write_text(storage.under(REPLACED), json.dumps({"traffic": {"a.parquet": 4_070_908_800}}))
    with sole_writer(storage) as turn:
        begin(storage, turn=turn.number)
        remove_replaced(turn)
    assert not storage.exists(storage.under("traffic"))


class KilledError(BaseException):
    """Nothing of ours catches it."""


def test_killed_while_it_is_removed_the_next_run_removes_it(
    spark: SparkSession, tmp_path: Path, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is gone, the list still has it: who reads in between reads what is there."""
    place = tmp_path / "tables"
    before = {name: files_on_disk(place / name / DAY) for name in NAMES}
    fed(spark, root, tmp_path, 3)
    remove = Storage.remove

    def killed(self: Storage, path: str) -> None:
        remove(self, path)
        if path.endswith(".parquet"):
            raise KilledError

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(replaced, "KEPT_SECONDS", 0)
        patched.setattr(Storage, "remove", killed)
        with pytest.raises(KilledError):
            ingest(spark, [str(tmp_path / "3")], root)
    assert seconds_of(Tables(spark, root).traffic) == [1, 1, 2, 2, 3, 3]
    monkeypatch.setattr(replaced, "KEPT_SECONDS", 0)
    ingest(spark, [str(tmp_path / "3")], root)
    assert not any(before[name] & files_on_disk(place / name / DAY) for name in NAMES)
    assert seconds_of(Tables(spark, root).traffic) == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("killed_at", [0, 2, 5])
def test_killed_at_any_move_what_is_read_is_whole(spark: SparkSession, tmp_path: Path, killed_at: int) -> None:
    out = str(tmp_path / "tables")
    two_files_a_day(spark, tmp_path)
    listed = Tables(spark, out).traffic
    moved: list[str] = []
    move = Storage.move

    def killed(self: Storage, source: str, target: str) -> None:
        if len(moved) == killed_at:
            self.remove(target)
            raise KilledError
        moved.append(source)
        move(self, source, target)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Storage, "move", killed)
        with pytest.raises(KilledError):
            fed(spark, out, tmp_path, 3)
    assert seconds_of(listed) == [1, 1, 2, 2]
    with pytest.raises(InputError, match="an ingest ended while it put its rows in place"):
        _ = Tables(spark, out).traffic
    ingest(spark, [str(tmp_path / "3")], out)
    assert not Path(out, STAGING, SEAL).exists()
    assert seconds_of(listed) == [1, 1, 2, 2]
    assert seconds_of(Tables(spark, out).traffic) == [1, 1, 2, 2, 3, 3]


def test_what_is_kept_of_a_day_is_read_as_it_was_and_leaves_no_directory(
    spark: SparkSession, tmp_path: Path, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = Tables(spark, root)
    summarise(tables, [times_behind.SUMMARY])
    listed = read(tables, times_behind.SUMMARY)
    as_it_was = sorted(listed.collect())
    fed(spark, root, tmp_path, 3)
    summarise(tables, [times_behind.SUMMARY])
    assert sorted(listed.collect()) == as_it_was
    place = tmp_path / "tables" / "times_behind" / DAY
    assert len(list(place.iterdir())) == 2
    fresh = sorted(read(tables, times_behind.SUMMARY).collect())
    assert fresh != as_it_was
    monkeypatch.setattr(replaced, "KEPT_SECONDS", 0)
    summarise(tables, [times_behind.SUMMARY])
    assert len(list(place.iterdir())) == 1
    assert sorted(read(tables, times_behind.SUMMARY).collect()) == fresh


def test_only_where_something_was_replaced_files_are_named_one_by_one(spark: SparkSession, tmp_path: Path) -> None:
    storage = Storage(spark, str(tmp_path))
    for place in ("t/d=1/b=1", "t/d=1/b=2", "t/d=2/b=1"):
        for name in ("a", "b"):
            storage.write_text(storage.under(place, name), "")
    gone = {"t/d=1/b=2": {"a": 0}, "other/d=2": {"a": 0}}
    assert living(storage, "t", {}) == ["t"]
    assert living(storage, "t", gone) == ["t/d=1/b=1", "t/d=1/b=2/b", "t/d=2"]
    assert living(storage, "t/d=2", gone) == ["t/d=2"]


def test_who_knows_of_no_such_list_does_not_read_these_tables(spark: SparkSession, tmp_path: Path) -> None:
    """An earlier version would have rows twice. Tables that it has written are read, and are its own until then."""
    out = tmp_path / "tables"
    fed(spark, str(out), tmp_path, 1)
    (out / LAYOUT).rename(out / EARLIER_LAYOUT)
    assert seconds_of(Tables(spark, str(out)).require().traffic) == [1, 1]
    fed(spark, str(out), tmp_path, 2)
    assert (out / LAYOUT).exists()
    assert not (out / EARLIER_LAYOUT).exists()
