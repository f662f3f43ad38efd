"""Journals to tables: each line once, however they are fed; what is none is set aside with the reason."""

from __future__ import annotations

import gzip
import json
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest
from pyspark.sql import functions as F

from journal_schema import Kind
from pipeline.errors import InputError
from pipeline.journals.ingest import Outcome, find_files, ingest, ingest_files
from pipeline.journals.parse_lines import MOST
from pipeline.tables import Tables, delta
from pipeline.tables.schema import VERSIONS
from pipeline.tables.write_lines import STAGING
from tests.pipeline.journal_files import FIRST, JOURNAL, changed, event_line, quota_line, traffic_line, write_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

Snapshot = tuple[list[tuple[object, ...]], ...]


def tables_of(spark: SparkSession, place: Path) -> Snapshot:
    tables = Tables(spark, str(place))
    return tuple(
        sorted((tuple(row) for row in frame.select(sorted(frame.columns)).collect()), key=repr)
        for frame in (tables.traffic, tables.seconds, tables.events, tables.quarantine)
    )


def states(spark: SparkSession, place: Path) -> dict[str, tuple[str, int, int]]:
    rows = Tables(spark, str(place)).files.collect()
    return {row.source: (row.state, row.lines, row.quarantined) for row in rows}


class Straight(NamedTuple):
    """A journal, and what it is when it is fed once, whole."""

    journal: Path
    out: Path
    outcome: Outcome
    tables: Snapshot


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two brokers, a day that ends, a file of each broker in a directory of its own."""
    folder = tmp_path_factory.mktemp("straight") / "journal"
    days = [traffic_line(time, partitions=range(3)) for time in (FIRST, FIRST + 86_400)]
    write_file(folder / "101", broker=101, number=1, lines=days)
    quota = event_line(Kind.QUOTA, FIRST, broker=102, role="follower", bytes_per_second=None, policy="strict",
                       enforce=True, selection="*", reason="start")  # fmt: skip
    write_file(folder / "102", broker=102, number=1, lines=[traffic_line(FIRST, broker=102, role="follower"), quota])
    return folder


@pytest.fixture(scope="module")
def straight(spark: SparkSession, journal: Path) -> Straight:
    out = journal.parent / "tables"
    outcome = ingest(spark, [str(journal)], str(out))
    return Straight(journal, out, outcome, tables_of(spark, out))


def test_every_line_is_in_the_partition_of_its_day(spark: SparkSession, straight: Straight) -> None:
    out = straight.out
    assert straight.outcome == ({"whole": 2}, 8, 0, 0, (), {})
    assert {path.name for path in (out / "lines").glob("date=*")} == {"date=2026-11-21", "date=2026-11-22"}
    tables = Tables(spark, str(out))
    assert tables.traffic.count() == 7
    row = tables.traffic.where("broker = 102").first()
    assert row is not None
    assert (row.role, row.peer, row.topic, row.partition, row.record_bytes) == ("follower", "102", "orders", 0, 1000)
    assert (row.time, row.throttled, row.in_sync, row.high_watermark) == (FIRST, True, False, 900)
    assert {event.kind for event in tables.events.collect()} == {"quota", "file_opened", "file_closed"}


def test_twice_in_two_orders_and_from_copies_it_is_the_same(
    spark: SparkSession, straight: Straight, tmp_path: Path
) -> None:
    again = ingest(spark, [str(straight.journal)], str(straight.out))
    assert (again.lines, again.skipped_files) == (0, 2)
    assert tables_of(spark, straight.out) == straight.tables
    shutil.copytree(straight.journal, tmp_path / "copy")
    parts = tmp_path / "parts"
    ingest(spark, [str(straight.journal / "102")], str(parts))
    ingest(spark, [str(tmp_path / "copy"), str(straight.journal / "101")], str(parts))
    assert tables_of(spark, parts) == straight.tables


def test_a_file_still_open_is_read_so_far_and_the_rest_later(spark: SparkSession, tmp_path: Path) -> None:
    folder, out = tmp_path / "journal", tmp_path / "tables"
    lines = [traffic_line(FIRST + second, tick=second) for second in range(20)]
    path = write_file(folder, number=1, lines=lines[:10], name_ends=".open.ndjson.gz", closed=False)
    ingest(spark, [str(folder)], str(out))
    assert states(spark, out) == {path.name: ("open", 11, 0)}
    path.unlink()
    closed = write_file(folder, number=1, lines=lines)
    ingest(spark, [str(folder)], str(out))
    assert states(spark, out)[closed.name] == ("whole", 22, 0)
    assert Tables(spark, str(out)).traffic.count() == 20


def test_a_file_that_is_closed_after_it_was_listed_costs_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """By then it has another name. What was listed beside it is taken, and the next run takes it."""
    folder, out = tmp_path / "journal", tmp_path / "tables"
    listed_open = write_file(folder, lines=[traffic_line(FIRST)], name_ends=".open.ndjson.gz", closed=False)
    write_file(folder, broker=102, lines=[traffic_line(FIRST, broker=102)])
    tables = Tables(spark, str(out))
    found = find_files(spark, tables.storage, [f"file:{folder}"])
    listed_open.unlink()
    write_file(folder, lines=[traffic_line(FIRST), traffic_line(FIRST + 1)])
    assert ingest_files(found, tables).files == {"whole": 1}
    assert ingest(spark, [str(folder)], str(out)).files == {"whole": 1}
    assert tables.now().traffic.groupBy("broker").count().orderBy("broker").collect() == [(101, 2), (102, 1)]


IN_2099 = 4_070_908_800
GOOD = traffic_line(FIRST)
OF_VERSION_1 = json.dumps(
    {**JOURNAL, "v": 1, "kind": "traffic", "time": FIRST, "role": "leader", "peer": "102", "topic": "orders",
     "partition": 0, "throttled": True, "in_sync": False, "record_bytes": 1000, "wire_bytes": 1018}
)  # fmt: skip
TOO_LARGE = f"a number is larger than {MOST}, which nothing here is"

BAD = [
    ("not json", "not a JSON object"),
    ('{"v":1,"kind":"traffic"', "not a JSON object"),
    ('{"level":"info","message":"x"}', "not a line of a journal: no v or no kind"),
    (traffic_line(FIRST, v=3), "schema version 3 is not 2"),
    (OF_VERSION_1, "schema version 1 is not 2"),
    (traffic_line(FIRST, kind="weather"), "unknown kind weather"),
    (changed(GOOD, topics=None, in_sync=None), "missing: in_sync, topics"),
    (traffic_line(FIRST, broker=None), "missing: broker"),
    (changed(GOOD, record_bytes=["many"]), "a field has the wrong type"),
    (changed(GOOD, record_bytes=1000), "a field has the wrong type"),
    (changed(GOOD, record_bytes=[1000, 1]), "lists of different lengths, or of none"),
    (changed(GOOD, shapes=["[["]), "lists of different lengths, or of none"),
    (changed(GOOD, second_omitted=[]), "lists of different lengths, or of none"),
    (changed(GOOD, topics=[None]), "a count is negative or missing"),
    (traffic_line(FIRST * 1000), f"time is not in seconds since 1970: {FIRST * 1000}"),
    (traffic_line(IN_2099), "its clock is in the future: 2099-01-01"),
    (traffic_line(FIRST, omitted=-1), "a count is negative or missing"),
    (traffic_line(FIRST, role="boss"), "unknown role boss"),
    (changed(GOOD, record_bytes=[2**63 - 1], shapes=["["]), TOO_LARGE),
    (changed(GOOD, fetch_offset_before=[0], fetch_offset=[2**63 - 1]), TOO_LARGE),
    (event_line(Kind.START, FIRST, version="1", tick=2**63 - 1), TOO_LARGE),
    (quota_line(bounds="["), "bounds are not rates of peers, racks and topics, each said once, of 0 or more"),
    (quota_line(bytes_per_second=-5.0), "bytes_per_second is not a rate of 0 or more: -5.0"),
    (event_line(Kind.CONNECTION, FIRST), "missing: role, peer, cause, seconds, replica_fetches, held_seconds"),
]


class Mixed(NamedTuple):
    """One run over files of which each has something wrong, by broker."""

    folder: Path
    outcome: Outcome
    tables: Tables
    states: dict[str, tuple[str, int, int]]


@pytest.fixture(scope="module")
def mixed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    folder = tmp_path_factory.mktemp("mixed")
    journal = folder / "journal"
    many = [traffic_line(FIRST + n, tick=n, record_bytes=n**5) for n in range(2000)]
    torn = write_file(journal, broker=101, lines=many)
    torn.write_bytes(torn.read_bytes()[: torn.stat().st_size // 2])
    (journal / "journal-102-x-000001.ndjson.gz").write_bytes(b"this is not gzip")
    damaged = write_file(journal, broker=103, lines=[traffic_line(FIRST + n, tick=n, broker=103) for n in range(5)])
    lines = gzip.decompress(damaged.read_bytes()).splitlines(keepends=True)
    damaged.write_bytes(gzip.compress(b"".join(lines[:2] + lines[3:])))
    most = {"fetch_offset_before": [-MOST], "fetch_offset": [MOST], "record_bytes": [MOST], "shapes": ["["]}
    largest = changed(traffic_line(FIRST + 1, broker=104, tick=1), **most)
    write_file(journal, broker=104, lines=[traffic_line(FIRST, broker=104, colour="blue"), largest])
    set_back = [traffic_line(FIRST, broker=105, tick=tick) for tick in (100, 3700)]
    clock = event_line(Kind.CLOCK, FIRST, broker=105, tick=3700, seconds=-3600.0)
    write_file(journal, broker=105, lines=[*set_back, clock])
    write_file(journal, broker=106, lines=[*(line for line, _ in BAD), traffic_line(FIRST, broker=106)])
    outcome = ingest(spark, [str(journal)], str(folder / "tables"))
    tables = Tables(spark, str(folder / "tables"))
    return Mixed(
        folder, outcome, tables, {name.split("-")[1]: of for name, of in states(spark, folder / "tables").items()}
    )


def ticks(mixed: Mixed, broker: int) -> list[int]:
    return sorted(row.tick for row in mixed.tables.now().traffic.where(f"broker = {broker}").collect())


def told(mixed: Mixed, message: str) -> bool:
    return any(message in trouble for trouble in mixed.outcome.troubles)


def test_a_truncated_gzip_gives_its_whole_lines(mixed: Mixed) -> None:
    assert mixed.states["101"][0] == "torn"
    found = ticks(mixed, 101)
    assert found == list(range(len(found)))
    assert 500 < len(found) < 2000
    assert told(
        mixed, f"ends before its last line says so (a kill -9, a full disk); its {len(found) + 1} whole lines were"
    )


def test_what_is_no_gzip_is_called_unreadable(mixed: Mixed) -> None:
    assert mixed.states["102"] == ("unreadable", 0, 0)
    assert told(mixed, "journal-102-x-000001.ndjson.gz: unreadable: no gzip (it does not begin as gzip does)")
    assert mixed.outcome.files == {"torn": 1, "unreadable": 1, "damaged": 1, "whole": 3}


def test_a_file_that_lost_lines_is_called_damaged(mixed: Mixed) -> None:
    assert mixed.states["103"][0] == "damaged"
    assert ticks(mixed, 103) == [0, 2, 3, 4]
    assert told(mixed, "000001.ndjson.gz: damaged: it has another number of lines than it says; the 6 there")


def test_fields_of_a_later_day_do_no_harm(mixed: Mixed) -> None:
    assert (mixed.states["104"], ticks(mixed, 104)) == (("whole", 4, 0), [0, 1])


def test_a_clock_set_back_costs_no_line(mixed: Mixed) -> None:
    assert ticks(mixed, 105) == [100, 3700]
    assert told(mixed, "broker 105: its clock was set by -3600 s at 2026-11-21T08:40:00Z; seconds it tells twice are")


def test_what_is_no_line_is_set_aside_with_the_reason(mixed: Mixed) -> None:
    assert mixed.outcome.quarantined == mixed.states["106"][2] == len(BAD)
    assert ticks(mixed, 106) == [0]
    rows = {(row.value, row.problem, row.source.split("-")[1]) for row in mixed.tables.quarantine.collect()}
    assert rows == {(value, reason, "106") for value, reason in BAD}


@pytest.mark.parametrize(
    ("name", "problem", "lines"),
    [
        ("not JSON", "not a JSON object", 2),
        ("foreign JSON", "not a line of a journal: no v or no kind", 1),
        ("a later version", "schema version 3 is not 2", 1),
        ("an earlier version", "schema version 1 is not 2", 1),
        ("a clock in milliseconds", f"time is not in seconds since 1970: {FIRST * 1000}", 1),
    ],
)
def test_foreign_lines_are_set_aside_and_named(mixed: Mixed, name: str, problem: str, lines: int) -> None:
    rows = [row for row in mixed.tables.quarantine.collect() if row.problem == problem]
    assert len(rows) == lines, name
    journal = mixed.folder / "journal"
    beginning = min(row.value for row in rows)[:100]
    told_of = f"{journal}/{rows[0].source}: {problem} (lines like that, in all files: {lines}): {beginning}"
    assert told(mixed, told_of)


def test_what_was_set_aside_is_read_again_once_it_may_be_understood(spark: SparkSession, mixed: Mixed) -> None:
    """When the time of a line of 2099 has come; before that it would be set aside at every run, for ever. What is no
    gzip, or lost lines, may be a good copy by then. Others stay."""
    fed = [str(mixed.folder / "journal")]
    again = ingest(spark, fed, str(mixed.folder / "tables"))
    assert (again.skipped_files, again.quarantined) == (4, 0)
    assert again.files == {"damaged": 1, "unreadable": 1}
    assert Tables(spark, str(mixed.folder / "tables")).quarantine.count() == len(BAD)
    then = ingest(spark, fed, str(mixed.folder / "tables"), now=IN_2099)
    assert (then.skipped_files, then.quarantined) == (3, len(BAD) - 1)
    assert then.files == {"damaged": 1, "unreadable": 1, "whole": 1}
    assert ticks(mixed, 106) == [0]
    assert ticks(mixed, 101)[-1] == IN_2099 - FIRST


def test_nothing_is_set_aside_of_a_file_that_is_whole(spark: SparkSession, tmp_path: Path) -> None:
    """A copy of it that somebody has edited beside it: of the good one no line is missing."""
    good = write_file(tmp_path / "a", lines=[traffic_line(FIRST), traffic_line(FIRST + 1)])
    edited = gzip.decompress(good.read_bytes()).replace(b'"traffic"', b'"weather"', 1)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / good.name).write_bytes(gzip.compress(edited))
    write_file(tmp_path / "b", broker=102, lines=["neither"])
    ingest(spark, [str(tmp_path / "a"), str(tmp_path / "b")], str(tmp_path / "tables"))
    found = Tables(spark, str(tmp_path / "tables"))
    assert [row.value for row in found.quarantine.collect()] == ["neither"]
    assert {(row.source, row.quarantined) for row in found.files.collect()} >= {(good.name, 0)}


def test_nothing_to_read_is_said(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: no such file or directory"):
        ingest(spark, [str(tmp_path / "nowhere")], str(tmp_path / "tables"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: no files called journal-\*\.gz here"):
        ingest(spark, [str(tmp_path / "empty")], str(tmp_path / "tables"))


class KilledError(BaseException):
    """Nothing of ours catches it."""


COMMITS = ("events", "lines", "quarantine", "files")
"""The tables that a run commits to, in this order."""


@pytest.mark.parametrize("killed_before", COMMITS)
def test_killed_between_two_commits_readers_see_it_as_before_and_the_next_run_puts_it_right(
    spark: SparkSession, straight: Straight, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_before: str
) -> None:
    """Traffic without its quotas was judged by older ones. After the lines and before the account, say, the files are
    read again, and no line is there twice."""
    journal, out = straight.journal, tmp_path / "tables"
    ingest(spark, [str(journal / "101")], str(out))
    before = tables_of(spark, out)
    write_file(tmp_path / "bad", broker=103, lines=["not json"])
    committed: list[str] = []

    def until_killed(commit: Callable[..., None]) -> Callable[..., None]:
        def run(*arguments: object, **options: object) -> None:
            (name,) = (name for name in COMMITS for each in arguments if str(each).endswith(f"/tables/{name}"))
            if name == killed_before:
                raise KilledError
            committed.append(name)
            commit(*arguments, **options)

        return run

    with monkeypatch.context() as patch:
        for commit in ("insert_new", "replace", "append"):
            patch.setattr(delta, commit, until_killed(getattr(delta, commit)))
        with pytest.raises(KilledError):
            ingest(spark, [str(journal), str(tmp_path / "bad")], str(out))
    assert tuple(committed) == COMMITS[: COMMITS.index(killed_before)]
    assert tables_of(spark, out)[:3] == before[:3]
    ingest(spark, [str(journal), str(tmp_path / "bad")], str(out))
    traffic, seconds, events, quarantine = tables_of(spark, out)
    assert (traffic, seconds) == straight.tables[:2]
    assert [event for event in events if "-103-" not in repr(event)] == straight.tables[2]
    assert len(quarantine) == 1
    assert list((out / STAGING).glob("*")) == []


def test_killed_in_its_first_run_nothing_counts(
    spark: SparkSession, straight: Straight, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(delta, "append", killed)
        with pytest.raises(KilledError):
            ingest(spark, [str(straight.journal)], str(tmp_path))
    assert tables_of(spark, tmp_path) == ([], [], [], [])
    ingest(spark, [str(straight.journal)], str(tmp_path))
    assert tables_of(spark, tmp_path) == straight.tables


def test_what_an_earlier_release_wrote_last_counts_as_it_is(
    spark: SparkSession, straight: Straight, tmp_path: Path
) -> None:
    """It does not say at which versions the tables have its lines."""
    out = tmp_path / "tables"
    ingest(spark, [str(straight.journal / "101")], str(out))
    ingest(spark, [str(straight.journal)], str(out))
    delta_table = spark.read.format("delta").load(str(out / "files"))
    older = delta_table.where("source like '%-102-%'").withColumns(
        {"taken": F.col("taken") + 1, **{name: F.lit(None).cast("long") for name in VERSIONS.values()}}
    )
    older.write.format("delta").mode("append").save(str(out / "files"))
    found = Tables(spark, str(out))
    assert found.versions() == {"lines": None, "events": None}
    assert tables_of(spark, out) == straight.tables


def test_tables_of_an_earlier_version_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    write_file(tmp_path / "journal", lines=[traffic_line(FIRST)])
    for mark in ("tables/_layout_3", "older/files/part-0.parquet"):
        (tmp_path / mark).parent.mkdir(parents=True)
        (tmp_path / mark).touch()
        into = str(tmp_path / mark.partition("/")[0])
        with pytest.raises(InputError, match="which are no Delta tables: ingest the journals into another directory"):
            ingest(spark, [str(tmp_path / "journal")], into)
        with pytest.raises(InputError, match="which are no Delta tables"):
            Tables(spark, into).require()


def test_the_journal_of_the_tests_is_the_one_of_the_schema() -> None:
    assert set(JOURNAL) == {"v", "kind", "time", "broker", "run", "tick"}
