"""Retention: old days go, answers about the others stay, and nobody in between is told anything else."""

from __future__ import annotations

import datetime as dt
import gzip
import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest

from journal_schema import VERSION, Kind
from pipeline.cli import main
from pipeline.errors import InputError
from pipeline.journals.ingest import ingest
from pipeline.journals.keep import keep
from pipeline.questions import was_it_kept
from pipeline.tables import Tables, delta
from pipeline.tables.scope import Scope
from pipeline.tables.storage import Storage
from tests.pipeline.journal_files import FIRST, changed, event_line, traffic_line, write_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

MIDNIGHT = FIRST - FIRST % 86_400 + 86_400
SINCE = dt.datetime.fromtimestamp(MIDNIGHT, dt.UTC).date()


def lines(first: int, seconds: int, broker: int = 101) -> list[str]:
    quota = event_line(
        Kind.QUOTA, first, role="leader", bytes_per_second=1018.0, policy="strict", enforce=True, selection="*",
        reason="file",
    )  # fmt: skip
    return [
        changed(quota, broker=broker),
        *(traffic_line(first + at, broker=broker, omitted=1) for at in range(seconds)),
    ]


class Kept(NamedTuple):
    journal: Path
    tables: Path
    files: dict[str, Path]


@pytest.fixture(scope="module")
def before(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A day's file, one that goes on past midnight and says its quota before it, and one of the day after; and of the
    first day one that is corrupt, one that grew since, one that is open."""
    folder = tmp_path_factory.mktemp("before")
    journal, told = folder / "journal", (FIRST, MIDNIGHT - 30, MIDNIGHT + 600)
    files = {
        name: write_file(journal, number=number, lines=lines(first, 60))
        for number, (name, first) in enumerate(zip(("old", "across", "new"), told, strict=True), 1)
    }
    files["corrupt"] = write_file(journal, broker=102, lines=lines(FIRST, 60, 102))
    content = bytearray(files["corrupt"].read_bytes())
    content[len(content) // 2] ^= 0x10
    files["corrupt"].write_bytes(content)
    files["longer"] = write_file(journal, broker=103, lines=lines(FIRST, 30, 103), closed=False)
    files["open"] = write_file(
        journal, broker=104, lines=lines(FIRST, 30, 104), closed=False, name_ends=".open.ndjson.gz"
    )  # fmt: skip
    for name, path in files.items():
        at = {"across": MIDNIGHT + 40, "new": MIDNIGHT + 700}.get(name, FIRST + 70)
        os.utime(path, (at, at))
    ingest(spark, [str(journal)], str(folder / "tables"))
    with files["longer"].open("ab") as grown:
        grown.write(b"more")
    os.utime(files["longer"], (FIRST + 90, FIRST + 90))
    return Kept(journal, folder / "tables", files)


@pytest.fixture
def copy(before: Kept, tmp_path: Path) -> Kept:
    shutil.copytree(before.journal, tmp_path / "journal")
    shutil.copytree(before.tables, tmp_path / "tables")
    # Accounts name the files that were read, and their size: not where a copy of them is.
    return Kept(tmp_path / "journal", tmp_path / "tables", {
        name: tmp_path / "journal" / path.name for name, path in before.files.items()
    })  # fmt: skip


def answers(spark: SparkSession, tables: Path, scope: Scope) -> tuple[was_it_kept.Kept, int]:
    found = Tables(spark, str(tables), scope)
    return was_it_kept.facts(found), found.seconds.count()


ALL, KEPT_DAYS = Scope(), Scope(since=MIDNIGHT)


def test_old_days_go_and_answers_about_the_others_stay(spark: SparkSession, copy: Kept) -> None:
    tables, wanted = str(copy.tables), answers(spark, copy.tables, KEPT_DAYS)
    assert wanted[1] == 30 + 60
    reader = Tables(spark, tables)
    assert reader.seconds.where("broker = 101").count() == 180
    said = list(keep(reader, SINCE))
    assert said[0].startswith("lines: 150 rows of 2026-11-21")
    assert reader.seconds.where("broker = 101").count() == 180  # it sees the same to its end
    now = Tables(spark, tables)
    assert answers(spark, copy.tables, KEPT_DAYS) == wanted
    assert answers(spark, copy.tables, ALL)[1] == 90
    # Quotas and racks that hold at midnight were told before it: of 101 in the file that goes on, of others long ago.
    left = {(row.broker, row.kind, row.time) for row in now.events.where(f"time < {MIDNIGHT}").collect()}
    assert (101, "quota", MIDNIGHT - 30) in left
    assert (101, "quota", FIRST) not in left
    assert {row.source for row in now.files.collect()} == {copy.files[name].name for name in ("across", "new")}
    assert (copy.tables / f"_kept_since_{SINCE}").exists()


def test_what_is_older_is_not_taken_again(spark: SparkSession, copy: Kept, tmp_path: Path) -> None:
    """Brought again by rsync, which keeps the time, or by cp, which does not; beside lines that are not older."""
    tables = str(copy.tables)
    list(keep(Tables(spark, tables), SINCE))
    told: list[str] = []
    done = ingest(spark, [str(copy.journal)], tables, tell=told.append)
    assert (done.files, done.skipped_files) == ({"copy": 2}, 4)  # the tables' own files are elsewhere
    assert told[0] == f"4 files are from before {SINCE}, from when on these tables are kept: passed over"
    shutil.copyfile(copy.files["old"], tmp_path / copy.files["old"].name)
    write_file(tmp_path, number=4, lines=lines(MIDNIGHT - 3, 10))
    assert ingest(spark, [str(tmp_path / "*.gz")], tables).files == {"whole": 2}
    assert ingest(spark, [str(tmp_path / "*.gz")], tables).files == {}
    found = Tables(spark, tables).seconds
    assert found.where(f"time < {MIDNIGHT}").count() == 0
    assert Tables(spark, tables).events.where(f"kind = 'quota' and time = {MIDNIGHT - 3}").count() == 1


def test_journals_go_that_are_in_the_tables_as_they_are(spark: SparkSession, copy: Kept) -> None:
    tables, journals = Tables(spark, str(copy.tables)), [str(copy.journal)]
    there = set(copy.journal.iterdir())
    first = list(keep(tables, SINCE, journals, dry_run=True))
    assert set(copy.journal.iterdir()) == there
    assert Tables(spark, str(copy.tables)).seconds.where(f"time < {MIDNIGHT}").count() == 150
    assert list(keep(tables, SINCE, journals)) == first
    assert first[-1].startswith("journal files: 1, ")
    assert there - set(copy.journal.iterdir()) == {copy.files["old"]}
    with pytest.raises(InputError, match="gone: no such file or directory"):
        list(keep(tables, SINCE, [str(copy.journal / "gone")]))


def test_files_that_cannot_be_removed_are_named_and_go_the_next_time(
    spark: SparkSession, copy: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said "removed", and no later keep removed them: their accounts were gone. What else may go goes."""
    more = [write_file(copy.journal, broker=105, number=number, lines=lines(FIRST, 60, 105)) for number in range(7)]
    for path in more:
        os.utime(path, (FIRST + 70, FIRST + 70))
    tables, journals = str(copy.tables), [str(copy.journal)]
    ingest(spark, journals, tables)
    remove = Storage.remove

    def is_denied(self: Storage, path: str) -> None:
        if "journal-105" in path:
            raise InputError(f"{path}: cannot be removed")
        remove(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "remove", is_denied)
        with pytest.raises(InputError, match=r"^7 of 8 journal files are still there.* and 2 more$") as raised:
            list(keep(Tables(spark, tables), SINCE, journals))
    assert str(raised.value).count("cannot be removed") == 5
    assert not copy.files["old"].exists()
    assert all(path.exists() for path in more)
    assert list(keep(Tables(spark, tables), SINCE, journals))[-1].startswith("journal files: 7, ")
    assert not any(path.exists() for path in more)


def test_a_file_of_a_newer_schema_stays_for_the_release_that_understands_it(spark: SparkSession, copy: Kept) -> None:
    """All of its lines are set aside, that of its end too, so that it is torn: it went, for good."""
    newer = write_file(copy.journal, broker=105, lines=[traffic_line(FIRST, broker=105)])
    text = gzip.decompress(newer.read_bytes()).decode()
    told = [changed(line, v=VERSION + 1) for line in text.splitlines()]
    newer.write_bytes(gzip.compress(("\n".join(told) + "\n").encode()))
    os.utime(newer, (FIRST + 70, FIRST + 70))
    assert ingest(spark, [str(newer)], str(copy.tables)).files == {"torn": 1}
    said = list(keep(Tables(spark, str(copy.tables)), SINCE, [str(copy.journal)]))
    assert newer.exists()
    assert not copy.files["old"].exists()
    assert said[-2].startswith("journal files: 1, ")
    assert said[-1] == "journal files that stay, since lines of them were set aside: 1"


class KilledError(BaseException):
    """Nothing of ours catches it."""


COMMITS_BEFORE_JOURNALS_GO = 7
"""Of lines and events, that which says that these count, and what removes files of four tables."""


@pytest.mark.parametrize("commits", [1, 2, 4, COMMITS_BEFORE_JOURNALS_GO])
def test_killed_after_any_commit_readers_see_it_as_before_or_as_after(
    spark: SparkSession, copy: Kept, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    whole, wanted = answers(spark, copy.tables, ALL), answers(spark, copy.tables, KEPT_DAYS)
    left = commits

    def until_killed(commit: Callable[..., None]) -> Callable[..., None]:
        def run(*arguments: object, **options: object) -> None:
            nonlocal left
            if left == 0:
                raise KilledError
            left -= 1
            commit(*arguments, **options)

        return run

    with monkeypatch.context() as patch:
        for commit in ("remove", "overwrite", "update", "vacuum"):
            patch.setattr(delta, commit, until_killed(getattr(delta, commit)))
        with pytest.raises(KilledError):
            list(keep(Tables(spark, str(copy.tables)), SINCE, [str(copy.journal)]))
    assert answers(spark, copy.tables, KEPT_DAYS) == wanted
    assert answers(spark, copy.tables, ALL)[1] in (whole[1], wanted[1])
    assert copy.files["old"].exists() == (commits < COMMITS_BEFORE_JOURNALS_GO)
    list(keep(Tables(spark, str(copy.tables)), SINCE, [str(copy.journal)]))
    assert answers(spark, copy.tables, ALL)[1] == wanted[1]
    assert answers(spark, copy.tables, KEPT_DAYS) == wanted
    assert not copy.files["old"].exists()


def test_the_command_says_what_it_would_do_and_that_it_is_done_at_its_end(
    copy: Kept, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keep", str(copy.tables), "--days", "30", "--dry-run", "--master", "local[2]"]) == 0
    head, first, *_ = capsys.readouterr().out.splitlines()
    assert head.startswith("would be removed, of before 20")
    assert first.startswith("lines: ")
    assert main(["keep", str(copy.tables), "--days", "0", "--master", "local[2]"]) == 2

    def is_full(*_: object) -> None:
        raise InputError("no room")

    command = ["keep", str(copy.tables), "--days", "30", "--master", "local[2]"]
    with monkeypatch.context() as patch:
        patch.setattr(delta, "vacuum", is_full)
        assert main(command) == 1
    assert "removed" not in capsys.readouterr().out
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "removed"
