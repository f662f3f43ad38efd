"""A running sidecar's overrides: acknowledged when stored and in force; undone; ended by the clock; hidden changes."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from proxy.control.override_keeper import OverrideKeeper
from proxy.control.override_routes import override_routes
from proxy.errors import ConfigurationError
from proxy.http.routing import Request, Routes
from proxy.quota_files import reload
from proxy.quota_files.override_store import load, store_path
from proxy.quota_files.reload import FEW_CHANGES, QuotaWatch
from proxy.quotas.override import LayerValue, Override, PlacedValue, Selector, layer_values
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

RATE, LIST = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
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
            record=lambda override, action, _: self.told.append((override.id, action)),
        )
        self.routes = Routes(override_routes(self.keeper, self.watch, 101, admit=None))

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

    def counted(*arguments: Any) -> list[LayerValue]:
        threads.append(threading.current_thread())
        return layer_values(*arguments)

    monkeypatch.setattr(reload, "layer_values", counted)
    stage.file.write_text(f"# nothing else is new\n{FILE}")
    await stage.watch.reload("test")
    assert threads == []
    stage.file.write_text(f'{FILE}[topics."t*"]\n{LIST} = ""\n')
    await stage.watch.reload("test")
    assert len(threads) == 2 * len(changes)
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


async def test_an_unreadable_store_is_said_and_changes_nothing(stage: Stage, tmp_path: Path) -> None:
    stage.store.write_bytes(b"{")
    other = Stage(tmp_path)
    assert ("overrides_unreadable" in other.log.events, other.rate) == (True, 20 * 2**20)
    with pytest.raises(ConfigurationError, match="no override can be changed until this file is moved away"):
        await other.keeper.add(override("aaaa", 1))
    assert stage.store.read_bytes() == b"{"
    stage.store.rename(tmp_path / "moved-away")
    await other.keeper.add(override("aaaa", "5MiB/s"))
    assert (other.rate, other.keeper.problem) == (5 * 2**20, None)


@pytest.mark.parametrize(("module", "work"), [(os, "fsync"), (reload, "work_out")], ids=["disk", "core"])
async def test_a_change_that_was_given_up_meanwhile_is_in_force_once_it_is_stored(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, module: ModuleType, work: str
) -> None:
    answers, quick = threading.Event(), getattr(module, work)

    def slow(*arguments: object) -> object:
        answers.wait(10)
        return quick(*arguments)

    stage.file.write_text(FILE + "#" * reload.SHORT_BYTES)  # worked out in a thread
    await stage.watch.reload("test")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.keeper.run)
        await stage.keeper.add(override("bbbb", "6MiB/s"))
        monkeypatch.setattr(module, work, slow)
        with trio.move_on_after(0.1) as asked:  # as the pages give up a request that takes too long
            await stage.keeper.add(override("aaaa", "5MiB/s"))
        assert (asked.cancelled_caught, stage.rate) == (True, 6 * 2**20)
        answers.set()
        with trio.fail_after(10):
            while (stage.told[-1], stage.rate) != (("aaaa", "set"), 5 * 2**20):  # noqa: ASYNC110 - what is tested has no event
                await trio.sleep(0.01)
        await stage.keeper.undo(Selector(id="aaaa"))
        assert (stage.told[-1], stage.rate) == (("aaaa", "undone"), 6 * 2**20)
        nursery.cancel_scope.cancel()


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
