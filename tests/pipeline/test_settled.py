"""Who reads tables that somebody writes sees all of a commit or nothing of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError

from pipeline.cli import main
from pipeline.committing import SEAL, STAGING, Move, begin, commit, commits
from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.settled import TRIES, settled
from pipeline.sole_writer import WRITER, Turn, sole_writer
from pipeline.storage import Storage
from pipeline.tables import Tables
from tests.pipeline.journals import FIRST, traffic_line, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long


@pytest.fixture
def storage(spark: SparkSession, tmp_path: Path) -> Storage:
    return Storage(spark, str(tmp_path / "tables"))


def never(_: float) -> None:
    raise AssertionError("waits for nobody")


def put(storage: Storage, *names: str) -> None:
    """A commit of so many files."""
    turn = Turn(storage, 0)  # before anybody's first
    stage = begin(turn)
    for name in names:
        storage.write_text(f"{stage}/{name}", name)
    commit(turn, [Move(name, name) for name in names], now=7)


def listed(storage: Storage) -> list[str]:
    """What such commits have put there, without the second in which it was added."""
    return [name.removeprefix("t7-") for name in storage.files(storage.root) if name.startswith("t7-")]


def test_while_nobody_writes_files_are_listed_once(storage: Storage) -> None:
    assert settled(storage, lambda: listed(storage), sleep=never) == []
    put(storage, "a", "b")
    assert commits(storage) == 1
    assert settled(storage, lambda: listed(storage), sleep=never) == ["a", "b"]


def test_what_was_listed_around_a_commit_is_listed_again(storage: Storage) -> None:
    """A reader that had seen `a` while `b` was not yet there."""
    looks: list[list[str]] = []

    def listing() -> list[str]:
        looks.append(listed(storage))
        if len(looks) == 1:
            put(storage, "a", "b")
        return looks[-1]

    assert settled(storage, listing, sleep=never) == ["a", "b"]
    assert looks == [[], ["a", "b"]]


def test_what_could_not_be_listed_while_a_commit_came_in_between_is_listed_again(storage: Storage) -> None:
    """A file that was there when it was looked for, and had another one's place by the time it was opened."""
    put(storage, "a")
    looks: list[int] = []

    def listing() -> str:
        looks.append(len(looks))
        if len(looks) == 1:
            put(storage, "b")
            return storage.read_text(storage.under("gone"))
        return storage.read_text(storage.under("t7-b"))

    assert settled(storage, listing, sleep=never) == "b"


def test_what_cannot_be_listed_at_rest_is_an_error(storage: Storage) -> None:
    put(storage, "a")
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        settled(storage, lambda: storage.read_text(storage.under("gone")), sleep=never)


def test_a_commit_that_is_being_put_in_place_is_waited_for(storage: Storage) -> None:
    """Its list of moves is there, of its two files one is in place."""
    waited: list[float] = []
    with sole_writer(storage) as turn:
        for name in ("a", "b"):
            storage.write_text(storage.under(STAGING, name), name)
        storage.write_text(storage.under(STAGING, SEAL), json.dumps([("a", "t7-a"), ("b", "t7-b")]))
        storage.move(storage.under(STAGING, "a"), storage.under("t7-a"))

        def meanwhile(seconds: float) -> None:
            waited.append(seconds)
            if len(waited) == 3:
                begin(turn)

        assert settled(storage, lambda: listed(storage), sleep=meanwhile) == ["a", "b"]
    assert len(waited) == 3


def test_beside_a_writer_that_commits_each_time_it_takes_a_turn_for_the_listing(storage: Storage) -> None:
    told: list[str] = []
    looks: list[list[str]] = []

    def listing() -> list[str]:
        looks.append(listed(storage))
        if not storage.files(storage.under(WRITER)):  # a writer waits for whoever has a turn
            put(storage, f"{len(looks):03d}")
        return looks[-1]

    assert len(settled(storage, listing, tell=told.append, sleep=never)) == TRIES
    assert len(looks) == TRIES + 1
    assert told == [
        f"{storage.root}: a commit came each of {TRIES} times while files were listed: waiting for a turn as writer"
    ]
    with sole_writer(storage, sleep=never) as turn:
        assert turn.number == 2


def test_in_its_turn_it_does_not_wait_for_a_commit_that_nobody_finishes(storage: Storage) -> None:
    """The writer beside it is killed within its last commit."""
    looks: list[int] = []

    def listing() -> None:
        looks.append(len(looks))
        put(storage, f"{len(looks):03d}")
        if len(looks) == TRIES:
            storage.write_text(storage.under(STAGING, SEAL), "[]")

    with pytest.raises(InputError, match="which finishes that"):
        settled(storage, listing, sleep=never)


def test_who_may_not_write_lists_on_and_says_so(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    looks: list[int] = []

    def refused(self: Storage, path: str) -> None:
        raise InputError("no permission")

    def listing() -> int:
        looks.append(len(looks))
        if len(looks) < TRIES + 5:
            put(storage, f"{len(looks):03d}")
        return looks[-1]

    monkeypatch.setattr(Storage, "make_directory", refused)
    assert settled(storage, listing, tell=told.append, sleep=never) == TRIES + 4
    assert told[1:] == [
        f"{storage.root}: may not be written here, so files are listed until no commit comes in between"
    ]


def test_half_a_commit_that_nobody_finishes_is_no_answer(
    spark: SparkSession, storage: Storage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A writer that was killed after the first of its moves. The next one finishes what it began."""
    write_file(tmp_path / "journal", lines=[traffic_line(FIRST)])
    ingest(spark, [str(tmp_path / "journal")], storage.root)
    day = "traffic/date=2026-11-21/broker=101"
    (file,) = storage.files(storage.under(day))
    moved = storage.under(STAGING, day, file)
    storage.make_directory(storage.under(STAGING, day))
    Path(storage.under(day, file)).rename(moved)
    storage.write_text(storage.under(STAGING, SEAL), json.dumps([(f"{day}/{file}",) * 2]))
    assert main(["lag", storage.root, "--master", "local[2]"]) == 1
    assert f"error: {storage.root}: an ingest ended while it put its rows in place" in capsys.readouterr().err
    with pytest.raises(InputError, match="which finishes that"):
        _ = Tables(spark, storage.root).traffic
    ingest(spark, [str(tmp_path / "journal")], storage.root)
    assert Tables(spark, storage.root).traffic.count() == 1


def test_a_file_that_was_replaced_while_it_was_to_be_read_is_said(
    spark: SparkSession, storage: Storage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_file(tmp_path / "journal", lines=[traffic_line(FIRST)])
    ingest(spark, [str(tmp_path / "journal")], storage.root)
    read = Tables.read

    def replaced(self: Tables, name: str) -> object:
        found = read(self, name)
        if name == "traffic":
            self.storage.remove(self.storage.under("traffic"))
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Tables, "read", replaced)
        assert main(["lag", storage.root, "--master", "local[2]"]) == 1
    said = capsys.readouterr().err
    assert "error: the tables were written anew while they were read, or a file of them was removed: run it" in said
    assert "Traceback" not in said
