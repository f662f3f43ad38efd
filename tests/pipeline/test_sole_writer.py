"""One writer at a time: whoever comes second waits, and takes over what a dead one left."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from pipeline import sole_writer as module
from pipeline.committing import COMMITS, STAGING, Move, begin, commit
from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.replaced import REPLACED, living, replaced_files
from pipeline.sole_writer import WRITER, Turn, sole_writer
from pipeline.storage import Storage
from pipeline.tables import Tables
from tests.pipeline.flaky import SCHEME, flaky
from tests.pipeline.journals import FIRST, traffic_line, write_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long


@pytest.fixture(params=["", f"{SCHEME}:"], ids=["local", "another file system"])
def storage(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Storage:
    if request.param:
        flaky(spark)
    return Storage(spark, f"{request.param}{tmp_path / 'tables'}")


def turn_of(storage: Storage, number: int) -> Turn:
    """The turn that somebody has, who may have stopped."""
    storage.make_directory(storage.under(WRITER))
    storage.create_text(storage.under(WRITER, f"{number}.json"), "{}")
    return Turn(storage, number)


def never(_: float) -> None:
    raise AssertionError("waits for nobody")


def test_turns_follow_each_other_and_leave_little(storage: Storage) -> None:
    for expected in range(1, 6):
        with sole_writer(storage, sleep=never) as turn:
            assert turn.number == expected
            turn.still_holds()
    assert storage.files(storage.under(WRITER)) == ["4.json", "5.json"]


def test_the_second_one_waits_until_the_first_is_done(storage: Storage) -> None:
    order, waits, told = [], threading.Event(), []

    def second() -> None:
        with sole_writer(storage, tell=told.append, sleep=lambda _: waits.set()):
            order.append("second")

    thread = threading.Thread(target=second)
    with sole_writer(storage):
        thread.start()
        assert waits.wait(60)
        order.append("first")
    thread.join(60)
    assert order == ["first", "second"]
    assert told[0].startswith(f"waiting for another writer of {storage.root}: process ")


def test_one_whose_process_is_gone_is_not_waited_for(storage: Storage) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    storage.make_directory(storage.under(WRITER))
    said = {"host": socket.gethostname(), "pid": dead.pid, "born": "1", "beat": 3}
    storage.replace_text(storage.under(WRITER, "7.json"), json.dumps(said))
    with sole_writer(storage, sleep=never) as turn:
        assert turn.number == 8


@pytest.mark.parametrize("said", ['{"host": "elsewhere", "pid": 1, "born": "1", "beat": 3}', "", "{"])
def test_one_elsewhere_is_waited_for_while_it_says_anything(storage: Storage, said: str) -> None:
    storage.make_directory(storage.under(WRITER))
    storage.replace_text(storage.under(WRITER, "7.json"), said)
    waited = []
    with sole_writer(storage, sleep=waited.append) as turn:
        assert turn.number == 8
    assert sum(waited) == pytest.approx(module.SILENT_SECONDS, abs=1)


@pytest.mark.parametrize("elsewhere", ["boot", "pid_namespace"])
def test_a_container_with_the_same_host_name_is_not_judged_by_its_pid(storage: Storage, elsewhere: str) -> None:
    """Its processes are not among ours, though it is alive. A claim of an earlier version says less, and is judged."""
    storage.make_directory(storage.under(WRITER))
    said = {**module._self(beat=3), "pid": 2**22 + 1, "born": "1", elsewhere: "another"}
    storage.replace_text(storage.under(WRITER, "7.json"), json.dumps(said))
    assert module.Watch(storage).look()[1] is not None
    storage.replace_text(storage.under(WRITER, "7.json"), json.dumps({**said, elsewhere: module._here()[elsewhere]}))
    assert module.Watch(storage).look()[1] is None


def test_who_was_taken_over_puts_nothing_in_place(storage: Storage) -> None:
    with sole_writer(storage) as turn:
        storage.create_text(storage.under(WRITER, "2.json"), "{}")
        with pytest.raises(InputError, match="another writer took over"):
            turn.still_holds()


def test_what_a_late_writer_still_stages_is_nobodys(storage: Storage) -> None:
    """It had stopped, and its turn was over; a JVM may outlive the driver that was killed, too."""
    stopped, turn = begin(turn_of(storage, 1)), turn_of(storage, 2)
    following = begin(turn)
    for stage, text in ((following, "two"), (stopped, "one")):
        storage.make_directory(f"{stage}/traffic")
        storage.write_text(f"{stage}/traffic/{text}", text)
    commit(turn, [Move("traffic", "traffic", takes_place=True)], now=7)
    assert storage.files(storage.under("traffic")) == ["t7-two"]


def staged(turn: Turn, text: str) -> list[Move]:
    """A day of a table, written anew as one file."""
    turn.storage.write_text(f"{begin(turn)}/traffic/{text}", text)
    return [Move("traffic", "traffic", takes_place=True)]


def living_files(storage: Storage) -> list[str]:
    return living(storage, "traffic", replaced_files(storage).places, None)


@pytest.mark.parametrize("stopped_at", ["_seal.json", "traffic/t7-one", COMMITS])
def test_who_goes_on_after_it_was_taken_over_removes_nothing_of_its_successor(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, stopped_at: str
) -> None:
    """Stopped before the list of moves is written, before a move, or before the commit is counted. It goes on when its
    successor has sealed its own commit and put the half of it in place."""
    commit(turn_of(storage, 1), staged(turn_of(storage, 1), "none"), now=1)
    stopped = turn_of(storage, 2)
    moves = staged(stopped, "one")
    going_on, has_gone_on = threading.Event(), threading.Event()
    errors: list[InputError] = []

    def slow() -> None:
        with pytest.raises(InputError, match="another writer took over") as caught:
            commit(stopped, moves, now=7)
        errors.append(caught.value)

    thread = threading.Thread(target=slow)
    arrived = halted(monkeypatch, thread, stopped_at, going_on)
    thread.start()
    assert arrived.wait(60)
    following = turn_of(storage, 3)
    later = staged(following, "two")
    move = Storage.move

    def move_beside(self: Storage, source: str, target: str) -> None:
        if target.endswith(REPLACED) and threading.current_thread() is not thread:
            going_on.set()
            thread.join(60)
            has_gone_on.set()
        move(self, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "move", move_beside)
        commit(following, later, now=9)
    assert has_gone_on.is_set()
    assert len(errors) == 1
    assert living_files(storage) == ["traffic/t9-two"]
    assert not storage.exists(storage.under(STAGING))


def halted(
    monkeypatch: pytest.MonkeyPatch, thread: threading.Thread, at: str, going_on: threading.Event
) -> threading.Event:
    """The thread stops before it writes this file or moves one there, until it is told to go on. Return what says that
    it has stopped."""
    arrived = threading.Event()

    def stop(path: str) -> None:
        if path.endswith(at) and threading.current_thread() is thread:
            arrived.set()
            assert going_on.wait(60)

    for name in ("write_text", "replace_text", "move"):
        monkeypatch.setattr(Storage, name, stopping(getattr(Storage, name), stop, path_at=int(name == "move")))
    return arrived


def stopping(method: Callable[..., None], stop: Callable[[str], None], *, path_at: int) -> Callable[..., None]:
    def stops(self: Storage, *arguments: str) -> None:
        stop(arguments[path_at])
        method(self, *arguments)

    return stops


def test_of_those_that_create_a_file_one_alone_does(spark: SparkSession, tmp_path: Path) -> None:
    storage = Storage(spark, str(tmp_path))
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda: found.append(storage.create_text(storage.under("one"), "text")))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [False, False, False, True]


def test_two_ingests_at_once_are_one_after_the_other(spark: SparkSession, tmp_path: Path) -> None:
    """Of journals that overlap: every line once, and nobody fails."""
    for name, broker in (("a", 101), ("b", 102)):
        write_file(tmp_path / name, broker=broker, lines=[traffic_line(FIRST + at, broker=broker) for at in range(20)])
    write_file(tmp_path / "b", number=2, lines=[traffic_line(FIRST + at) for at in range(10, 30)])
    outcomes = []

    def run(name: str) -> None:
        outcomes.append(ingest(spark, [str(tmp_path / name)], str(tmp_path / "tables")))

    threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcome.is_complete for outcome in outcomes] == [True, True]
    rows = Tables(spark, str(tmp_path / "tables")).seconds.groupBy("broker").count().collect()
    assert {row.broker: row["count"] for row in rows} == {101: 30, 102: 20}
