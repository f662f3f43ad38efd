"""Who has listed a day reads it as it was, whoever writes it anew; nothing is read twice, nothing stays for ever."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline import staging, times_behind
from pipeline.committing import SEAL, STAGING, begin, remove_replaced
from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.replaced import KEPT_SECONDS, REPLACED, Replaced, counts, living, replaced_files
from pipeline.sole_writer import sole_writer
from pipeline.storage import Storage
from pipeline.summaries import read, summarise
from pipeline.tables import EARLIER_LAYOUT, LAYOUT, Tables
from tests.pipeline.flaky import SCHEME, flaky
from tests.pipeline.journals import FIRST, traffic_line, write_file
from tests.pipeline.killing import KilledError, killed_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long

NAMES = ("traffic", "seconds", "events")
DAY = "date=2026-11-21/broker=101"
IN_2099 = 4_070_908_800
LATER = FIRST + 3600
"""When the first of several commits is; each is ten seconds after the one before."""


def fed(spark: SparkSession, out: str, folder: Path, number: int, *, now: float | None = None) -> None:
    """A second of a replica, as a file of its own; and one of another broker. `now` None: ten seconds a commit."""
    for broker in (101, 102):
        line = traffic_line(FIRST + number, broker=broker, partitions=range(2))
        write_file(folder / str(number), broker=broker, number=number, lines=[line])
    ingest(spark, [str(folder / str(number))], out, now=LATER + 10 * number if now is None else now)


def seconds_of(rows: DataFrame) -> list[int]:
    return sorted(row.time - FIRST for row in rows.where("broker = 101").select("time").collect())


def an_hour_later() -> float:
    """Than whatever these tests write, of which summaries are written by the clock."""
    return max(time.time(), LATER + 100) + KEPT_SECONDS


def files_on_disk(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*.parquet")}


@pytest.fixture(scope="module")
def two_files_a_day(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables whose days have two files each, which the next ingest writes anew."""
    folder = tmp_path_factory.mktemp("two")
    for number in (1, 2):
        fed(spark, str(folder / "tables"), folder, number)
    return folder / "tables"


@pytest.fixture
def root(two_files_a_day: Path, tmp_path: Path) -> str:
    return str(shutil.copytree(two_files_a_day, tmp_path / "tables"))


@pytest.fixture(autouse=True)
def crowded_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "MOST_FILES", 2)


@pytest.mark.parametrize("scheme", ["", f"{SCHEME}:"], ids=["local", "another file system"])
def test_who_listed_a_day_before_it_was_written_anew_reads_it_as_it_was(
    spark: SparkSession, tmp_path: Path, root: str, scheme: str
) -> None:
    """And who lists it afterwards, each row once: by the whole table, by dates, by brokers."""
    flaky(spark)
    root = f"{scheme}{root}"
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
    spark: SparkSession, tmp_path: Path, root: str
) -> None:
    place = tmp_path / "tables"
    before = files_on_disk(place / "traffic" / DAY)
    fed(spark, root, tmp_path, 3)
    old = files_on_disk(place / "traffic" / DAY)
    assert before < old
    ingest(spark, [str(tmp_path / "3")], root, now=LATER + 40)
    assert files_on_disk(place / "traffic" / DAY) == old
    ingest(spark, [str(tmp_path / "3")], root, now=an_hour_later())
    assert files_on_disk(place / "traffic" / DAY) == old - before
    assert len(files_on_disk(place / "files")) == 1
    assert json.loads((place / REPLACED).read_text("utf-8"))["replaced"] == {}
    assert seconds_of(Tables(spark, root).traffic) == [1, 1, 2, 2, 3, 3]


def test_a_clock_that_was_ahead_keeps_nothing_for_ever(spark: SparkSession, tmp_path: Path) -> None:
    """What was replaced in 2099 is not of the last hour."""
    storage = Storage(spark, str(tmp_path))
    storage.write_text(storage.under("traffic/a.parquet"), "")
    storage.write_text(storage.under(REPLACED), Replaced(places={"traffic": {"a.parquet": IN_2099}}).text)
    with sole_writer(storage) as turn:
        begin(turn)
        remove_replaced(turn, now=FIRST)
    assert not storage.exists(storage.under("traffic"))
    assert replaced_files(storage) == Replaced(since=FIRST)


def test_killed_while_it_is_removed_the_next_run_removes_it(spark: SparkSession, tmp_path: Path, root: str) -> None:
    """The file is gone, the list still has it: who reads in between reads what is there. Of a moment at which the file
    counted nobody is told anything any more."""
    place = tmp_path / "tables"
    before = {name: files_on_disk(place / name / DAY) for name in NAMES}
    fed(spark, root, tmp_path, 3)
    listed = replaced_files(Storage(spark, root)).places
    replaced_at = max(at for names in listed.values() for at in names.values())
    assert seconds_of(as_of(Tables(spark, root), replaced_at - 1).traffic) == [1, 1, 2, 2]
    remove = Storage.remove

    def killed(self: Storage, path: str) -> None:
        remove(self, path)
        if path.endswith(".parquet"):
            raise KilledError

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Storage, "remove", killed)
        with pytest.raises(KilledError):
            ingest(spark, [str(tmp_path / "3")], root, now=an_hour_later())
    assert seconds_of(Tables(spark, root).traffic) == [1, 1, 2, 2, 3, 3]
    with pytest.raises(InputError, match="the tables are known"):
        _ = as_of(Tables(spark, root), replaced_at - 1).traffic
    ingest(spark, [str(tmp_path / "3")], root, now=an_hour_later())
    assert not any(before[name] & files_on_disk(place / name / DAY) for name in NAMES)
    assert seconds_of(Tables(spark, root).traffic) == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("killed_after", [0, 2, 5])
def test_killed_at_any_move_what_is_read_is_whole(
    spark: SparkSession, tmp_path: Path, root: str, monkeypatch: pytest.MonkeyPatch, killed_after: int
) -> None:
    listed = Tables(spark, root).traffic
    with killed_at(killed_after, monkeypatch):
        fed(spark, root, tmp_path, 3)
    assert seconds_of(listed) == [1, 1, 2, 2]
    with pytest.raises(InputError, match="an ingest ended while it put its rows in place"):
        _ = Tables(spark, root).traffic
    ingest(spark, [str(tmp_path / "3")], root, now=LATER + 40)
    assert not Path(root, STAGING, SEAL).exists()
    assert seconds_of(listed) == [1, 1, 2, 2]
    assert seconds_of(Tables(spark, root).traffic) == [1, 1, 2, 2, 3, 3]


def test_what_is_kept_of_a_day_is_read_as_it_was_and_leaves_no_directory(
    spark: SparkSession, tmp_path: Path, root: str
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
    with sole_writer(tables.storage) as turn:
        begin(turn)
        remove_replaced(turn, now=an_hour_later())
    assert len(list(place.iterdir())) == 1
    assert sorted(read(tables, times_behind.SUMMARY).collect()) == fresh


def test_only_where_something_was_replaced_files_are_named_one_by_one(spark: SparkSession, tmp_path: Path) -> None:
    storage = Storage(spark, str(tmp_path))
    for place in ("t/d=1/b=1", "t/d=1/b=2", "t/d=2/b=1"):
        for name in ("a", "b"):
            storage.write_text(storage.under(place, name), "")
    gone = {"t/d=1/b=2": {"a": 0}, "other/d=2": {"a": 0}}
    assert living(storage, "t", {}, None) == ["t"]
    assert living(storage, "t", gone, None) == ["t/d=1/b=1", "t/d=1/b=2/b", "t/d=2"]
    assert living(storage, "t/d=2", gone, None) == ["t/d=2"]
    assert living(storage, "t/d=1", gone, 7) == ["t/d=1/b=1/a", "t/d=1/b=1/b", "t/d=1/b=2/b"]


def test_who_knows_of_no_such_list_does_not_read_these_tables(spark: SparkSession, tmp_path: Path) -> None:
    """An earlier version would have rows twice. Tables that it has written are read, and are its own until then."""
    out = tmp_path / "tables"
    fed(spark, str(out), tmp_path, 1)
    (out / LAYOUT).rename(out / EARLIER_LAYOUT)
    assert seconds_of(Tables(spark, str(out)).require().traffic) == [1, 1]
    fed(spark, str(out), tmp_path, 2)
    assert (out / LAYOUT).exists()
    assert not (out / EARLIER_LAYOUT).exists()


@pytest.mark.parametrize(
    ("name", "replaced_at", "as_of", "expected"),
    [
        ("t5-part", None, None, True),
        ("t5-part", 7, None, False),
        ("t5-part", None, 4, False),
        ("t5-part", None, 5, True),
        ("t5-part", 7, 6, True),
        ("t5-part", 7, 7, False),
        ("part", None, 1, True),
    ],
)
def test_a_file_counts_from_its_commit_to_the_one_that_replaces_it(
    name: str, replaced_at: int | None, as_of: int | None, expected: bool
) -> None:
    assert counts(name, replaced_at, as_of) is expected


def as_of(tables: Tables, seconds: int) -> Tables:
    return tables.within(tables.scope._replace(as_of=seconds))


def test_tables_are_read_as_they_were_at_each_moment(spark: SparkSession, tmp_path: Path, root: str) -> None:
    """Over commits that add and commits that write a day anew: `MOST_FILES` is 2."""
    for number in range(3, 6):
        fed(spark, root, tmp_path, number)
    tables = Tables(spark, root)
    for number in range(1, 6):
        for moment in (0, 9):
            then = as_of(tables, LATER + 10 * number + moment)
            assert seconds_of(then.traffic) == sorted([*range(1, number + 1)] * 2)
            assert seconds_of(then.seconds) == seconds_of(then.recent("seconds")) == [*range(1, number + 1)]
            assert then.events.count() == number * 4
            assert then.last_second() == FIRST + number
            assert then.files.count() == 10  # what is known of the journals is what is known now
    with pytest.raises(InputError, match=r"expected a moment as of which the tables are known, 2026-11-21T.* found"):
        _ = as_of(tables, LATER).traffic


def test_what_is_kept_of_a_day_is_what_was_kept_then(spark: SparkSession, tmp_path: Path, root: str) -> None:
    tables = Tables(spark, root)
    summarise(tables, [times_behind.SUMMARY])
    before = sorted(read(tables, times_behind.SUMMARY).collect())
    moment = max(int(path.name[1:].partition("-")[0]) for path in (tmp_path / "tables").rglob("t*.parquet"))
    fed(spark, root, tmp_path, 3, now=moment + 10)
    assert sorted(read(tables, times_behind.SUMMARY).collect()) != before
    assert sorted(read(as_of(tables, moment + 9), times_behind.SUMMARY).collect()) == before


def test_from_when_on_tables_are_known_moves_with_what_is_removed(
    spark: SparkSession, tmp_path: Path, root: str
) -> None:
    """Added alone is known for ever; what was replaced goes after an hour, or after what `compact --keep` said."""
    fed(spark, root, tmp_path, 3)
    tables, replaced_at = Tables(spark, root), LATER + 30
    assert replaced_files(tables.storage).since == LATER + 10
    with sole_writer(tables.storage) as turn:
        begin(turn)
        remove_replaced(turn, keep_seconds=86_400, now=replaced_at + 3600)
        assert replaced_files(tables.storage)[:2] == (LATER + 10, 86_400)
        remove_replaced(turn, now=replaced_at + 86_399)
        assert seconds_of(as_of(tables, LATER + 20).traffic) == [1, 1, 2, 2]
        remove_replaced(turn, now=replaced_at + 86_400)
    assert replaced_files(tables.storage) == Replaced(replaced_at, 86_400, {})
    assert seconds_of(as_of(tables, replaced_at).traffic) == [1, 1, 2, 2, 3, 3]
    with pytest.raises(InputError, match="the tables are known"):
        _ = as_of(tables, LATER + 20).traffic
