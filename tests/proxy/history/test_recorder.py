"""The recorder beside the loop: what it writes, what a disk costs, and what GET /history answers."""

from __future__ import annotations

import json
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.lowlevel

from proxy.diagnostics.conditions import Condition
from proxy.history import files, recorder
from proxy.history.recorder import MAX_WAITING, HistoryRecorder
from proxy.http.routing import Request
from proxy.quota_files.effective_quotas import FileEffects
from proxy.quota_files.reload import ReloadOutcome, ReloadResult
from proxy.quotas.layer_values import Effect
from proxy.quotas.override import Override, PlacedValue
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 12, 1, tzinfo=UTC)
RATE = "producer_byte_rate"
EFFECT = Effect("clients.etl", RATE, "20.00 MiB/s", "quotas.toml", "5.00 MiB/s", "override aaaa")
NOTHING = ReloadOutcome(ReloadResult.UNCHANGED)


class Stage:
    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.began = folder, RecordedLog(), trio.current_time()
        self.recorder = self.again()

    def again(self) -> HistoryRecorder:
        now = lambda: NOW + timedelta(seconds=trio.current_time() - self.began)  # noqa: E731
        return HistoryRecorder(self.folder, 101, log=self.log, now=now)

    async def page(self, query: str = "") -> dict[str, Any]:
        answer = await self.recorder.route(None).handler(Request("GET", "/history", query=query))
        return {"status": answer.status, **json.loads(answer.body)}

    async def events(self) -> list[str]:
        return [each["event"] for each in (await self.page())["records"]]


@pytest.fixture
async def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def override(number: int = 0, **more: Any) -> Override:
    changes = (PlacedValue("clients.etl", RATE, "5MiB/s"),)
    return Override(id=f"{number:04x}", by="ops@jump", since=NOW, changes=changes, **more)


def run(stage: Stage, nursery: trio.Nursery) -> None:
    nursery.start_soon(stage.recorder.run, lambda: ("version 1", NOTHING))


async def written(stage: Stage) -> None:
    """Wait until nothing waits for the disk."""
    with trio.fail_after(20):
        while any(each.records for each in stage.recorder._waiting) or stage.recorder._disk.borrowed_tokens:  # noqa: ASYNC110
            await trio.sleep(0.001)


async def test_each_event_tells_who_when_why_and_what_held_before_and_after(
    stage: Stage, nursery: trio.Nursery
) -> None:
    edited = Effect("broker", "leader.rate", "1", "brokers.default", "2", "brokers.default")
    condition = Condition("bypassed", "critical", NOW, "{count} brokers", "do", "leader", 2)
    run(stage, nursery)
    stage.recorder.override(override(reason="too slow", label="move"), "set", "ops@jump (pid 7)", [EFFECT])
    stage.recorder.override(override(), "undone", "eve", [EFFECT])
    stage.recorder.override(override(), "ended", None, [EFFECT])
    stage.recorder.override(override(), "set", "told by the process before", None)
    stage.recorder.quotas(ReloadOutcome(ReloadResult.CHANGED, reason="watch", effects=FileEffects([edited], 3, "ab12")))
    stage.recorder.quotas(NOTHING)
    stage.recorder.condition(condition, True)
    stage.recorder.condition(condition, False)
    stage.recorder.process("handed_over", "to process 7")
    await written(stage)
    records = {each["event"]: each for each in (await stage.page())["records"]}
    assert {*records} == {
        *("override_set", "override_undone", "override_ended", "quotas_changed"),
        *("condition_raised", "condition_cleared", "handed_over", "started"),
    }
    first = records["override_set"]
    assert (first["by"], first["reason"], first["label"], first["time"]) == (
        *("ops@jump (pid 7)", "too slow", "move"),
        first["time"],
    )
    assert (first["effects"][0]["before"], first["effects"][0]["after"]) == ("20.00 MiB/s", "5.00 MiB/s")
    assert (records["quotas_changed"]["text"], records["quotas_changed"]["more"]) == ("quotas.toml ab12", 2)
    assert records["condition_raised"]["text"] == "2 brokers"
    assert records["started"]["text"] == "version 1"


async def test_it_survives_a_restart_and_another_version(stage: Stage) -> None:
    for text in ("first", "second"):
        stage.recorder.process("started", text)
        await stage.recorder.finish()
        stage.recorder = stage.again()
    assert [each["text"] for each in (await stage.page())["records"]] == ["first", "second"]


async def test_flapping_conditions_push_no_change_out(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that has conditions come and go for days must not hide who set what."""
    monkeypatch.setattr(files, "MAX_CONDITIONS_BYTES", 20_000)
    stage.recorder = stage.again()
    stage.recorder.override(override(), "set", "eve", [EFFECT])
    condition = Condition("undecoded", "critical", NOW, "x" * 100, "do")
    for _ in range(20):
        for _ in range(50):
            stage.recorder.condition(condition, True)
        await stage.recorder.finish()
    assert (await stage.events())[0] == "override_set"
    assert sum(path.stat().st_size for path in stage.folder.glob("conditions-*")) < 30_000


@pytest.mark.parametrize("how", ["full", "directory", "hangs"])
async def test_a_disk_that_takes_nothing_costs_a_condition_and_loses_nothing_recent(
    stage: Stage, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(recorder, "WRITE_SECONDS", 0.1)
    monkeypatch.setattr(recorder, "RETRY_SECONDS", 0.01)
    path, hangs, write = stage.folder / "history-101.jsonl", threading.Event(), os.write
    if how == "directory":
        path.mkdir()

    def refuse(descriptor: int, data: bytes) -> int:
        if how == "hangs":
            hangs.wait(20)
            return write(descriptor, data)
        if how == "full":
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(files.os, "write", refuse)
    run(stage, nursery)
    with trio.fail_after(10):
        while stage.recorder.problem is None:  # noqa: ASYNC110
            await trio.sleep(0.01)
    expected = {"full": "No space left on device", "directory": "Is a directory", "hangs": "no answer within 0.1 s"}
    assert stage.recorder.problem == f"{path}: {expected[how]}"
    for number in range(3 * MAX_WAITING):
        stage.recorder.override(override(number), "set", "eve", [EFFECT])
    assert all(len(each.records) <= MAX_WAITING for each in stage.recorder._waiting)
    assert stage.log.events.count("history_not_written") == 1
    page = await stage.page()
    assert (page["records"][-1]["id"], page["not_written"]) == (f"{3 * MAX_WAITING - 1:04x}", stage.recorder.problem)
    monkeypatch.setattr(files.os, "write", write)
    hangs.set()
    if how == "directory":
        path.rmdir()
    with trio.fail_after(20):
        while stage.recorder.problem is not None:  # noqa: ASYNC110
            await trio.sleep(0.01)
    await written(stage)
    page = await stage.page()
    ids = [each["id"] for each in page["records"] if each["event"] == "override_set"]
    assert ids[-MAX_WAITING + 10 :] == [f"{each:04x}" for each in range(2 * MAX_WAITING + 10, 3 * MAX_WAITING)]
    dropped = [each["text"] for each in page["records"] if each["event"] == "records_dropped"]
    assert [text.endswith("the disk did not take them") for text in dropped] == [True]


async def test_a_thousandfold_set_and_undo_costs_the_loop_little_and_is_bounded(
    stage: Stage, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_CHANGES_BYTES", 300_000)
    stage.recorder = stage.again()
    run(stage, nursery)
    pieces = []
    effects = [EFFECT] * 20
    for number in range(10_000):
        began = time.thread_time()
        stage.recorder.override(override(number), "set" if number % 2 else "undone", "eve", effects)
        pieces.append(time.thread_time() - began)
        if number % 100 == 0:
            await trio.lowlevel.checkpoint()
    await written(stage)
    assert sorted(pieces)[-100] < 0.001
    assert sum(path.stat().st_size for path in stage.folder.iterdir()) < 2 * 300_000
    page = await stage.page()
    assert page["records"][-1]["id"] == f"{9999:04x}"


async def test_since_is_kept_to_and_nonsense_is_refused(stage: Stage) -> None:
    stage.recorder.process("started", "x")
    await stage.recorder.finish()
    assert (await stage.page("since=2026-11-30T00:00:00Z"))["records"]
    assert (await stage.page("since=2026-12-02T00:00:00%2B00:00"))["records"] == []
    for nonsense in ("since=yesterday", "since=2026-11-30", "since=%00"):
        found = await stage.page(nonsense)
        assert (found["status"], "expected a time with an offset" in found["error"]) == (400, True)


async def test_a_process_that_ends_in_the_middle_of_a_write_writes_it_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, hangs, write = threading.Event(), threading.Event(), os.write

    def slow(descriptor: int, data: bytes) -> int:
        began.set()
        hangs.wait(10)
        return write(descriptor, data)

    monkeypatch.setattr(files.os, "write", slow)
    async with trio.open_nursery() as nursery:
        run(stage, nursery)
        await trio.to_thread.run_sync(partial(began.wait, 10))
        nursery.cancel_scope.cancel()
    hangs.set()
    await stage.recorder.finish()
    assert await stage.events() == ["started"]


async def test_a_disk_that_hangs_at_the_end_is_told(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, write = threading.Event(), os.write
    monkeypatch.setattr(recorder, "FINISH_SECONDS", 0.1)
    monkeypatch.setattr(os, "write", lambda descriptor, data: (hangs.wait(10), write(descriptor, data))[1])
    stage.recorder.process("stopped", "x")
    await stage.recorder.finish()
    hangs.set()
    assert "no answer within 0.1 s" in str(stage.recorder.problem)
    assert stage.log.events == ["history_not_written"]
