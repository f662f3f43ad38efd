"""Days of many small files become few, with the same rows, wherever it is killed; all others are left alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline import compaction
from pipeline.committing import STAGING
from pipeline.compaction import Compacted, compact
from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.replaced import REPLACED
from pipeline.scope import Scope
from pipeline.tables import DATED, Tables
from tests.pipeline.journals import FIRST, traffic_line, write_file
from tests.pipeline.killing import killed_at

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.long

DAY_SECONDS = 86_400
FILES = 2


@pytest.fixture(scope="module")
def fed_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of a day of broker 101, one of the day after, and one of the day of broker 102."""
    home = tmp_path_factory.mktemp("fed")
    for number in range(FILES):
        write_file(home / str(number), number=number, lines=[traffic_line(FIRST + number)])
    write_file(home / "0", number=FILES, lines=[traffic_line(FIRST + DAY_SECONDS)])
    write_file(home / "0", broker=102, lines=[traffic_line(FIRST, broker=102)])
    out = home / "tables"
    for number in range(FILES):
        ingest(spark, [str(home / str(number))], str(out))
    return out


@pytest.fixture
def fed(fed_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fed_once, tmp_path / "tables"))


def rows(spark: SparkSession, out: Path) -> dict[str, list[Row]]:
    tables = Tables(spark, str(out))
    return {name: sorted(tables.read(name).collect(), key=repr) for name in (*DATED, "files")}


def files(out: Path, name: str) -> dict[str, set[str]]:
    """Those that count."""
    replaced = json.loads((out / REPLACED).read_text("utf-8"))["replaced"]
    found: dict[str, set[str]] = {}
    for path in sorted((out / name).rglob("*.parquet")):
        if path.name not in replaced.get(str(path.parent.relative_to(out)), {}):
            found.setdefault(str(path.parent.relative_to(out / name)), set()).add(path.name)
    return found


def test_a_day_of_many_files_becomes_one_and_the_others_stay(spark: SparkSession, fed: Path) -> None:
    before, had = rows(spark, fed), files(fed, "traffic")
    told: list[str] = []
    done = compact(Tables(spark, str(fed)), tell=told.append)
    assert rows(spark, fed) == before
    has = files(fed, "traffic")
    (crowded,) = [day for day, names in had.items() if len(names) == FILES]
    assert len(has[crowded]) == 1
    assert not has[crowded] & had[crowded]
    del has[crowded], had[crowded]
    assert has == had
    of_traffic = {each.table: each for each in done}["traffic"]
    assert (of_traffic.days, of_traffic.files_before, of_traffic.files) == (1, FILES, 1)
    assert 0 < of_traffic.bytes < of_traffic.bytes_before
    assert told == [f"{name}: 1 days of brokers" for name in DATED]


def test_what_was_compacted_is_left_alone(spark: SparkSession, fed: Path) -> None:
    compact(Tables(spark, str(fed)))
    had = {name: files(fed, name) for name in DATED}
    assert compact(Tables(spark, str(fed))) == [Compacted(name, 0, 0, 0, 0, 0) for name in DATED]
    assert {name: files(fed, name) for name in DATED} == had


@pytest.mark.parametrize(
    "scope", [Scope(since=FIRST + DAY_SECONDS), Scope(until=FIRST - DAY_SECONDS), Scope(brokers=(102,))]
)
def test_days_out_of_the_scope_are_left_alone(spark: SparkSession, fed: Path, scope: Scope) -> None:
    assert {each.days for each in compact(Tables(spark, str(fed)), wanted=lambda: scope)} == {0}
    assert {each.days for each in compact(Tables(spark, str(fed)), wanted=lambda: Scope(brokers=(101,)))} == {1}


def test_large_files_are_left_alone(spark: SparkSession, fed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "LARGE_BYTES", 100)
    assert {each.days for each in compact(Tables(spark, str(fed)))} == {0}


@pytest.mark.parametrize("moment", ["stage", 0, 1])
def test_killed_at_any_moment_the_next_run_puts_it_right(
    spark: SparkSession, fed: Path, monkeypatch: pytest.MonkeyPatch, moment: str | int
) -> None:
    before = rows(spark, fed)
    with killed_at(moment, monkeypatch):
        compact(Tables(spark, str(fed)))
    compact(Tables(spark, str(fed)))
    assert rows(spark, fed) == before
    assert all(len(names) == 1 for name in DATED for names in files(fed, name).values())
    assert not (fed / STAGING).exists()


def test_where_there_are_no_tables_that_is_said(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no tables here"):
        compact(Tables(spark, str(tmp_path / "nothing")))
