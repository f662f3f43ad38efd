"""A running sidecar's overrides: acknowledged when stored and in force; undone; ended by the clock; hidden changes."""

from __future__ import annotations

import errno
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from proxy.control import override_keeper
from proxy.control.override_keeper import OverrideKeeper
from proxy.control.override_routes import override_routes
from proxy.errors import ConfigurationError
from proxy.http.routing import Request, Routes
from proxy.quota_files import effective_quotas
from proxy.quota_files.override_store import damaged_path, load, store_path, write
from proxy.quota_files.reload import FEW_CHANGES, QuotaWatch
from proxy.quotas.layer_values import LayerIndex
from proxy.quotas.override import MAX_CHANGES, MAX_OVERRIDES, Override, PlacedValue, Selector, added
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

RATE, LIST = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
OTHER_RATE = "follower.replication.throttled.rate"
FILE = f"""
[brokers.default]
{RATE} = "20MiB/s"
{LIST} = "*"
"""
START = datetime(2026, 12, 1, tzinfo=UTC)


class Stage:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "quotas.toml"
        if not self.file.exists():
            self.file.write_text(FILE)
        self.log = RecordedLog()
        self.told: list[tuple[str, str]] = []
        self.store = store_path(folder / "state", 101)
        self.watch = QuotaWatch.open(self.file, broker_id=101, log=self.log, overrides=self.store)
        self.watch._clock = lambda: START + timedelta(seconds=trio.current_time())
        self.keeper = OverrideKeeper(
            self.store,
            self.watch,
            broker_id=101,
            log=self.log,
            record=lambda override, action, *_: self.told.append((override.id, action)),
        )
        self.routes = Routes(override_routes(self.keeper, self.watch, 101, admit=None))

    def damage(self) -> None:
        """Leave the first bytes of the store."""
        self.store.write_bytes(self.store.read_bytes()[:50])

    @property
    def rate(self) -> float:
        return self.watch.current.leader.bytes_per_second

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        route = self.routes.find(method, path)
        encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
        answer = await route.handler(Request(method, path, body=encoded, peer="pid 7, uid 0"))  # type: ignore[union-attr]
        return answer.status, msgspec.json.decode(answer.body)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def override(name: str, value: Any, *, key: str = RATE, place: str = "broker", **more: Any) -> Override:
    return Override(id=name, by="op", since=START, changes=(PlacedValue(place, key, value),), **more)


async def test_it_is_on_disk_and_in_force_when_it_is_acknowledged(stage: Stage) -> None:
    applied = await stage.keeper.add(override("aaaa", "5MiB/s"))
    assert stage.rate == 5 * 2**20
    assert [each.id for each in load(stage.store, 101).overrides] == ["aaaa"]
    (effect,) = applied.effects
    assert (effect.before, effect.before_layer) == ("20.00 MiB/s (20971520 B/s)", "brokers.default")
    assert (effect.after, effect.after_layer) == ("5.00 MiB/s (5242880 B/s)", "override aaaa: brokers.101")
    assert (applied.in_force, stage.told, "override_set" in stage.log.events) == (True, [("aaaa", "set")], True)


async def test_what_it_hid_counts_again_whatever_was_done_in_between(stage: Stage) -> None:
    await stage.keeper.add(override("aaaa", "5MiB/s"))
    await stage.keeper.add(override("bbbb", "6MiB/s", label="move"))
    stage.file.write_text(FILE.replace("20MiB/s", "30MiB/s"))
    await stage.watch.reload("test")
    assert stage.rate == 6 * 2**20
    await stage.keeper.undo(Selector(id="aaaa"))
    assert stage.rate == 6 * 2**20
    applied = await stage.keeper.undo(Selector(label="move"))
    assert (stage.rate, applied.effects[0].after_layer) == (30 * 2**20, "brokers.default")
    assert load(stage.store, 101).overrides == ()


async def test_a_reload_that_changes_a_hidden_key_says_what_hides_it(stage: Stage) -> None:
    await stage.keeper.add(override("aaaa", "5MiB/s"))
    stage.file.write_text(FILE.replace("20MiB/s", "30MiB/s"))
    await stage.watch.reload("test")
    (line,) = [line for line in stage.log.lines if line["event"] == "quota_change_hidden"]
    assert (line["override"], line["key"], line["file"]) == ("aaaa", RATE, "30.00 MiB/s (31457280 B/s)")
    await stage.watch.reload("test")
    assert stage.log.events.count("quota_change_hidden") == 1


async def test_a_long_override_is_compared_with_a_changed_file_in_a_thread(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = tuple(PlacedValue(f"topics.t{number}", LIST, "0:101") for number in range(FEW_CHANGES + 1))
    await stage.keeper.add(Override(id="aaaa", by="op", since=START, changes=changes))
    threads = []

    class Counted(LayerIndex):
        def values(self, *arguments: Any) -> Any:
            threads.append(threading.current_thread())
            return super().values(*arguments)

    monkeypatch.setattr(effective_quotas, "LayerIndex", Counted)
    stage.file.write_text(f"# nothing else is new\n{FILE}")
    await stage.watch.reload("test")
    assert threads == []
    stage.file.write_text(f'{FILE}[topics."t*"]\n{LIST} = ""\n')
    await stage.watch.reload("test")
    assert len(threads) >= 2 * len(changes)
    assert threading.current_thread() not in threads
    assert stage.log.events.count("quota_change_hidden") == len(changes)


async def test_it_ends_by_the_clock(stage: Stage) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.keeper.run)
        nursery.start_soon(stage.watch.follow_clock)
        await stage.keeper.add(override("aaaa", "5MiB/s", until=stage.watch.now() + timedelta(seconds=0.3)))
        assert stage.rate == 5 * 2**20
        with trio.fail_after(10):
            while (stage.told[-1], stage.rate) != (("aaaa", "ended"), 20 * 2**20):  # noqa: ASYNC110 - what is tested has no event
                await trio.sleep(0.01)
        assert stage.keeper.current == ()
        nursery.cancel_scope.cancel()


async def test_the_next_process_has_it(stage: Stage, tmp_path: Path) -> None:
    await stage.keeper.add(override("aaaa", "5MiB/s"))
    assert Stage(tmp_path).rate == 5 * 2**20


async def test_a_process_that_takes_over_reads_what_was_stored_after_it_began(stage: Stage, tmp_path: Path) -> None:
    taker = Stage(tmp_path)
    await stage.keeper.add(override("aaaa", "5MiB/s"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(taker.keeper.run)
        with trio.fail_after(10):
            while taker.rate != 5 * 2**20:  # noqa: ASYNC110 - what is tested has no event
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that has no event."""
    with trio.fail_after(60):
        while not is_so():  # noqa: ASYNC110
            await trio.sleep(0.01)


@pytest.fixture
async def kept(stage: Stage) -> AsyncIterator[Stage]:
    """A stage whose store is looked at all the time."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.keeper.run)
        yield stage
        nursery.cancel_scope.cancel()


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(override_keeper, "CHECK_SECONDS", 0.02)


class Disk:
    """A disk of which one call fails while it `refuses`: a full one, unless the call and its error are named."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, owner: Any = os, call: str = "fsync", error: int = errno.ENOSPC
    ) -> None:
        self.refuses = False
        works = getattr(owner, call)

        def perhaps(argument: Any) -> Any:
            if self.refuses:
                raise OSError(error, os.strerror(error))
            return works(argument)

        monkeypatch.setattr(owner, call, perhaps)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


async def test_on_a_full_disk_set_is_refused_and_undo_takes_effect_and_is_stored_later(kept: Stage, disk: Disk) -> None:
    await kept.keeper.add(override("aaaa", "5MiB/s"))
    disk.refuses = True
    with pytest.raises(ConfigurationError, match=r"nothing has changed: .*No space left on device"):
        await kept.keeper.add(override("bbbb", "6MiB/s"))
    assert (kept.rate, [each.id for each in kept.keeper.current]) == (5 * 2**20, ["aaaa"])
    applied = await kept.keeper.undo(Selector(id="aaaa"))
    assert (kept.rate, applied.in_force) == (20 * 2**20, True)
    assert "No space left on device" in str(applied.not_stored)
    assert "No space left on device" in str(kept.keeper.problem)
    assert [each.id for each in load(kept.store, 101).overrides] == ["aaaa"]
    disk.refuses = False
    await until(lambda: kept.keeper.problem is None)
    assert load(kept.store, 101).overrides == ()
    assert kept.log.events.count("overrides_not_stored") == 1


@pytest.mark.parametrize("what", ["lost", "damaged", "foreign"])
async def test_a_store_that_is_lost_damaged_or_foreign_changes_nothing_and_is_written_again(
    kept: Stage, tmp_path: Path, what: str
) -> None:
    await kept.keeper.add(override("aaaa", "5MiB/s"))
    if what == "lost":
        kept.store.unlink()
    elif what == "damaged":
        kept.damage()
    else:
        write(kept.store, [override("ffff", 1)])
    await kept.keeper.add(override("bbbb", "6MiB/s", key=OTHER_RATE))
    assert kept.rate == 5 * 2**20
    await until(lambda: [each.id for each in load(kept.store, 101).overrides] == ["aaaa", "bbbb"])
    await until(lambda: kept.keeper.problem is None)
    assert [each.id for each in Stage(tmp_path).watch.overrides] == ["aaaa", "bbbb"]


async def test_a_store_that_is_lost_is_written_again_with_a_line_in_the_log(kept: Stage) -> None:
    await kept.keeper.add(override("aaaa", "5MiB/s"))
    kept.store.unlink()
    await until(lambda: kept.store.exists())
    assert (kept.log.events.count("overrides_restored"), kept.rate) == (1, 5 * 2**20)


async def test_after_a_damaged_store_the_copy_holds_and_stays_in_force_whatever_is_set(
    stage: Stage, tmp_path: Path
) -> None:
    await stage.keeper.add(override("aaaa", "5MiB/s"))
    stage.damage()
    other = Stage(tmp_path)
    assert ("overrides_unreadable" in other.log.events, other.rate) == (True, 5 * 2**20)
    assert str(stage.store) in str(other.keeper.problem)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other.keeper.run)
        await other.keeper.add(override("bbbb", "6MiB/s", key=OTHER_RATE))
        await until(lambda: damaged_path(stage.store).exists())
        assert (other.rate, len(damaged_path(stage.store).read_bytes())) == (5 * 2**20, 50)
        await until(lambda: load(stage.store, 101).problem is None)
        assert other.keeper.damaged is not None
        third = Stage(tmp_path)
        assert third.rate == 5 * 2**20
        damaged_path(stage.store).unlink()
        await until(lambda: other.keeper.problem is None)
        nursery.cancel_scope.cancel()


async def test_a_damaged_store_that_the_first_look_sets_aside_is_told_from_then_on(
    stage: Stage, tmp_path: Path
) -> None:
    await stage.keeper.add(override("aaaa", "5MiB/s"))
    stage.damage()
    other = Stage(tmp_path)
    await other.keeper._check_store()
    assert (damaged_path(stage.store).exists(), load(stage.store, 101).problem) == (True, None)
    assert str(stage.store) in str(other.keeper.problem)


async def test_one_look_that_failed_is_a_problem_until_the_next(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch, override_keeper, "_look", errno.EIO)
    await stage.keeper.add(override("aaaa", "5MiB/s"))
    disk.refuses = True
    await stage.keeper._check_store()
    assert "Input/output error" in str(stage.keeper.problem)
    disk.refuses = False
    await stage.keeper._check_store()
    assert stage.keeper.problem is None


async def test_what_ended_while_the_clock_was_wrong_for_a_moment_is_back_when_it_is_right(
    stage: Stage, tmp_path: Path
) -> None:
    right = stage.watch._clock
    now = right()
    ends = now + timedelta(hours=1)
    await stage.keeper.add(override("aaaa", "5MiB/s", until=ends))
    stage.watch._clock = lambda: now + timedelta(hours=3)
    await stage.keeper.add(override("bbbb", "6MiB/s", key=OTHER_RATE))
    assert (stage.rate, [each.id for each in stage.keeper.current]) == (20 * 2**20, ["bbbb"])
    stage.watch._clock = right
    assert [each.id for each in stage.keeper.current] == ["aaaa", "bbbb"]
    await stage.keeper.undo(Selector(id="bbbb"))
    assert (stage.rate, Stage(tmp_path).rate) == (5 * 2**20, 5 * 2**20)


@pytest.mark.parametrize("given_up", ["add", "undo"])
async def test_a_change_is_made_to_its_end_whoever_still_waits_for_the_answer(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, given_up: str
) -> None:
    await stage.keeper.add(override("aaaa", "5MiB/s"))
    answers, quick = threading.Event(), os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (answers.wait(10), quick(descriptor)))
    made = {
        "add": partial(stage.keeper.add, override("bbbb", "6MiB/s")),
        "undo": partial(stage.keeper.undo, Selector(id="aaaa")),
    }
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            await made[given_up]()

        nursery.start_soon(ask)
        await trio.sleep(0.1)
        nursery.cancel_scope.cancel()
        answers.set()
    assert stage.rate == (6 if given_up == "add" else 20) * 2**20
    assert load(stage.store, 101).overrides == stage.watch.overrides


async def test_a_disk_that_hangs_refuses_set_and_not_undo(kept: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await kept.keeper.add(override("aaaa", "5MiB/s"))
    answers, quick = threading.Event(), os.fsync
    with monkeypatch.context() as patched:
        patched.setattr(override_keeper, "STORE_SECONDS", 0.1)
        patched.setattr(os, "fsync", lambda descriptor: (answers.wait(10), quick(descriptor)))
        with pytest.raises(ConfigurationError, match=r"nothing has changed: .*no answer within 0\.1 s"):
            await kept.keeper.add(override("bbbb", "6MiB/s"))
        applied = await kept.keeper.undo(Selector(id="aaaa"))
        assert (kept.rate, "no answer" in str(applied.not_stored)) == (20 * 2**20, True)
        answers.set()
    await until(lambda: kept.keeper.problem is None and load(kept.store, 101).overrides == ())
    assert kept.rate == 20 * 2**20


def many(overrides: int, changes: int) -> list[Override]:
    return [
        Override(
            id=f"{number:06x}",
            by="op",
            since=START,
            changes=tuple(PlacedValue(f"topics.t{number}-{each}", LIST, "0:101,1:101") for each in range(changes)),
        )
        for number in range(overrides)
    ]


async def test_ten_thousand_changes_cost_the_loop_little(stage: Stage, tmp_path: Path) -> None:
    write(stage.store, many(MAX_OVERRIDES - 1, MAX_CHANGES // MAX_OVERRIDES))
    stage = Stage(tmp_path)
    new = many(MAX_OVERRIDES, MAX_CHANGES // MAX_OVERRIDES)[-1]
    await stage.keeper.add(new)  # what is resolved first is resolved once
    await stage.keeper.undo(Selector(id=new.id))
    for work in (
        partial(stage.keeper.add, new),
        partial(stage.ask, "GET", "/overrides"),
        partial(stage.keeper.undo, Selector(last=True)),
    ):
        assert await loop_time(work) < 0.02


class _Pieces(trio.abc.Instrument):
    """The time on a core that each step of this thread's tasks takes."""

    def __init__(self) -> None:
        self.began, self.pieces = 0.0, list[float]()

    def before_task_step(self, _: trio.lowlevel.Task) -> None:
        self.began = time.thread_time()

    def after_task_step(self, _: trio.lowlevel.Task) -> None:
        self.pieces.append(time.thread_time() - self.began)


async def loop_time(work: Callable[[], Awaitable[object]]) -> float:
    """Return the seconds on a core that the loop's thread needs for `work`."""
    pieces = _Pieces()
    trio.lowlevel.add_instrument(pieces)
    try:
        await trio.lowlevel.checkpoint()
        pieces.pieces.clear()
        await work()
    finally:
        trio.lowlevel.remove_instrument(pieces)
    return sum(pieces.pieces)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: many(MAX_OVERRIDES + 1, 1), f"at most {MAX_OVERRIDES} overrides in all overrides, found 501"),
        (lambda: many(3, MAX_CHANGES // 2), f"at most {MAX_CHANGES} changes in all overrides, found 15000"),
        (
            lambda: [override(f"{n:04x}", "0:101", key=LIST, place=f"topics.t{n}-*") for n in range(501)],
            "at most 500 globs in all overrides, found 501",
        ),
        (
            lambda: [
                override(f"{n:04x}", "1MiB/s", key="producer_byte_rate", place=f"clients.c{n}") for n in range(501)
            ],
            "at most 500 clients and users in all",
        ),
        (
            lambda: [override(f"{n:04x}", "1MiB/s", place=f"topics.t{n}") for n in range(101)],
            "at most 100 topics with a rate",
        ),
    ],
)
def test_bounds_hold_for_all_overrides_together(made: Callable[[], list[Override]], said: str) -> None:
    found: tuple[Override, ...] = ()
    *first, last = made()
    for each in first[-1:]:
        found = added(tuple(first[:-1]), each, START)
    with pytest.raises(ConfigurationError, match=said):
        added(found, last, START)


REFUSED = [
    (b"{", "expected an override as JSON"),
    ({}, "changes"),
    ({"changes": []}, "changes: expected 1 to"),
    ({"changes": [{"place": "broker", "key": "leader.rate", "value": 1}]}, "unknown key"),
    ({"changes": [{"place": "broker", "key": RATE, "value": "5 apples"}]}, RATE),
    (
        {"changes": [{"place": "brokers.7", "key": RATE, "value": 1}]},
        "place: expected broker, mode, listener, peers.ID",
    ),
    ({"changes": [{"place": "peers.x", "key": RATE, "value": 1}]}, "peers"),
    ({"changes": [{"place": "topics.a/b", "key": RATE, "value": 1}]}, "topics"),
    ({"changes": [{"place": "mode", "key": "enforce", "value": "no"}]}, "expected true or false"),
    ({"changes": [{"place": "broker", "key": RATE, "value": 1}] * 2}, "set twice"),
    ({"changes": [{"place": "broker", "key": RATE, "value": 1}], "id": "xyz"}, "id: expected 4 to 16"),
    ({"changes": [{"place": "broker", "key": RATE, "value": 1}], "label": "a b"}, "label: expected"),
    ({"changes": [{"place": "broker", "key": RATE, "value": 1}], "reason": "a\nb"}, "reason: expected one line"),
    (
        {"changes": [{"place": "broker", "key": RATE, "value": 1}], "until": "2020-01-01T00:00:00Z"},
        "a time in the future",
    ),
    ({"changes": [{"place": "broker", "key": RATE, "value": 1}], "until": "2030-01-01T00:00:00"}, "with an offset"),
    ({"changes": [{"place": "broker", "key": RATE, "value": 1}], "until": "0001-01-01T00:00:00+01:00"}, "until: exp"),
    ({"changes": [{"place": "broker", "key": RATE, "value": 1}], "until": "9999-12-31T23:59:59-01:00"}, "until: exp"),
    ({"changes": [{"place": "broker", "key": RATE, "value": 1}], "untl": 1}, "untl"),
    ({"changes": [{"place": f"topics.t{n}", "key": RATE, "value": "?"} for n in range(100)]}, "may be more problems"),
]


@pytest.mark.parametrize(("body", "said"), REFUSED, ids=[said for _, said in REFUSED])
async def test_what_is_refused_over_http_changes_nothing(stage: Stage, body: object, said: str) -> None:
    status, answer = await stage.ask("POST", "/overrides", body)
    assert (status, answer["ok"]) == (400, False)
    assert said in " ".join(answer["problems"])
    assert (stage.rate, stage.store.exists()) == (20 * 2**20, False)


async def test_over_http(stage: Stage) -> None:
    change = {"place": "broker", "key": RATE, "value": "5MiB/s"}
    body = {"changes": [change], "id": "7f3a", "label": "move", "by": "ana", "reason": "disk 3 is slow"}
    status, made = await stage.ask("POST", "/overrides", body)
    assert (status, made["ids"], made["in_force"]) == (200, ["7f3a"], True)
    _, again = await stage.ask("POST", "/overrides", body)
    assert (again["ids"], len(stage.keeper.current)) == (["7f3a"], 1)
    status, other = await stage.ask("POST", "/overrides", {**body, "changes": [{**change, "value": 1}]})
    assert (status, "another override's" in other["problems"][0]) == (400, True)
    _, page = await stage.ask("GET", "/overrides")
    (found,) = page["overrides"]
    assert found["by"] == "ana (pid 7, uid 0)"
    assert found["changes"][0]["hides"] == {"value": "20.00 MiB/s (20971520 B/s)", "layer": "brokers.default"}
    status, none = await stage.ask("POST", "/overrides/undo", {"id": "ffff"})
    assert (status, none["problems"]) == (404, ["no override with the id ffff"])
    assert (await stage.ask("POST", "/overrides/undo", {}))[0] == 400
    status, undone = await stage.ask("POST", "/overrides/undo", {"last": True})
    assert (status, undone["ids"], stage.rate) == (200, ["7f3a"], 20 * 2**20)
