"""A running sidecar records what is done to it: the operator's "who changed this?" end to end, in one process."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from operating.asking import ask, send
from proxy.config.settings import load_settings
from proxy.history import recorder
from proxy.quota_files.reload import QuotaWatch
from proxy.serving.serve import serve
from proxy.statistics.counters import Statistics
from tests.proxy.recorded_log import RecordedLog

from .test_conditions import with_control
from .test_sidecar import write_quotas

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    import pytest

    from proxy.config.settings import Settings

RATE = "leader.replication.throttled.rate"


class Operator:
    """Types commands at the control socket, and waits for what the history has of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, f"unix:{folder / 'control'}"

    async def post(self, page: str, **body: Any) -> None:
        await trio.to_thread.run_sync(
            partial(send, self.url, page, method="POST", body=json.dumps(body).encode(), timeout_seconds=20)
        )

    async def records(self) -> list[dict[str, Any]]:
        page = json.loads(await trio.to_thread.run_sync(partial(ask, self.url, "/history", timeout_seconds=20)))
        return list(page["records"])

    async def record(self, event: str, number: int = 1) -> dict[str, Any]:
        with trio.fail_after(20):
            while True:
                found = [each for each in await self.records() if each["event"] == event]
                if len(found) >= number:
                    return found[-1]
                await trio.sleep(0.02)


async def served(of: Settings, block: Callable[[], Awaitable[None]]) -> None:
    """Run the block beside a sidecar that starts as `run` starts it."""
    state, store = of.quotas.state, of.quotas.state.parent / "overrides-101.json"
    log = RecordedLog()
    watch = QuotaWatch.open(of.quotas.file, broker_id=101, log=log, state=state, overrides=store)
    with trio.fail_after(50):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve, of, watch, statistics=Statistics(), log=log, signals=False))
            await block()
            nursery.cancel_scope.cancel()


async def test_who_changed_this_and_what_held_before(tmp_path: Path) -> None:
    write_quotas(tmp_path, '"20MiB/s"')
    operator, of = Operator(tmp_path), with_control(tmp_path)
    end = {"until": "2099-12-01T00:00:00Z"}

    async def first() -> None:
        change = {"place": "broker", "key": RATE, "value": "5MiB/s"}
        await operator.post("/overrides", changes=[change], id="aaaa", by="ops@jump", reason="disk 3", **end)
        made = await operator.record("override_set")
        assert (made["id"], made["reason"], made["by"].startswith("ops@jump (pid ")) == ("aaaa", "disk 3", True)
        (effect,) = made["effects"]
        assert (effect["before"][:9], effect["after"][:8]) == ("20.00 MiB", "5.00 MiB")
        write_quotas(tmp_path, '"30MiB/s"')
        edited = await operator.record("quotas_changed")
        assert [(each["place"], each["key"]) for each in edited["effects"]] == [
            ("broker", RATE),
            ("broker", RATE.replace("leader", "follower")),
        ]
        assert (edited["effects"][0]["after"][:8], edited["effects"][0]["file"][:9]) == ("5.00 MiB", "30.00 MiB")
        assert (edited["effects"][1]["after"][:9], edited["effects"][1]["file"]) == ("30.00 MiB", None)
        await operator.post("/overrides/undo", id="aaaa", by="eve")
        assert (await operator.record("override_undone"))["effects"][0]["after"][:9] == "30.00 MiB"
        enforce = {"place": "mode", "key": "enforce", "value": False}
        await operator.post("/overrides", changes=[enforce], by="eve")
        assert (await operator.record("override_set", 2))["effects"][0]["after"] == "false"
        assert (await operator.record("condition_raised"))["name"] == "observe_only"
        await operator.post("/overrides/undo", last=True)
        cleared = await operator.record("condition_cleared")
        assert (cleared["name"], cleared["since"] < cleared["time"]) == ("observe_only", True)
        with trio.fail_after(20):
            while b"30MiB" not in of.quotas.state.read_bytes():  # noqa: ASYNC110
                await trio.sleep(0.02)

    await served(of, first)
    write_quotas(tmp_path, '"40MiB/s"')
    held = len(await trio.to_thread.run_sync(lines_of, tmp_path))

    async def second() -> None:
        edited = await operator.record("quotas_changed", 2)
        assert (edited["reason"], edited["effects"][0]["before"][:9], edited["effects"][0]["after"][:9]) == (
            *("start", "30.00 MiB", "40.00 MiB"),
        )
        events = [each["event"] for each in await operator.records()]
        assert (events.count("started"), events.count("stopped")) == (2, 1)
        assert "leader 40.00 MiB/s" in (await operator.record("started", 2))["text"]

    await served(of, second)
    assert len(await trio.to_thread.run_sync(lines_of, tmp_path)) > held


def lines_of(folder: Path) -> list[bytes]:
    return (folder / "history-101.jsonl").read_bytes().splitlines()


async def test_a_section_that_ends_is_told_with_what_holds_then(tmp_path: Path) -> None:
    write_quotas(tmp_path, '"20MiB/s"')
    operator, of = Operator(tmp_path), with_control(tmp_path)

    async def edit() -> None:
        base = (tmp_path / "quotas.toml").read_text()
        await operator.record("started")
        until = f"{datetime.now(UTC) + timedelta(seconds=3):%Y-%m-%dT%H:%M:%SZ}"
        (tmp_path / "quotas.toml").write_text(f'{base}[brokers.101]\n{RATE} = "1MiB/s"\nuntil = {until}\n')
        await operator.record("quotas_changed")
        over = await operator.record("quotas_ended")
        assert (over["effects"][0]["before"][:8], over["effects"][0]["after"][:9]) == ("1.00 MiB", "20.00 MiB")

    await served(of, edit)


async def test_a_history_that_cannot_be_written_is_a_condition_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "RETRY_SECONDS", 0.1)
    write_quotas(tmp_path, '"20MiB/s"')
    operator, of = Operator(tmp_path), with_control(tmp_path)
    (tmp_path / "history-101.jsonl").mkdir()

    async def break_and_mend() -> None:
        raised = await operator.record("condition_raised")
        assert (raised["name"], "Is a directory" in raised["text"]) == ("history_not_written", True)
        change = {"place": "broker", "key": RATE, "value": "5MiB/s"}
        await operator.post("/overrides", changes=[change], by="ops@jump")
        assert (await operator.record("override_set"))["by"].startswith("ops@jump")
        (tmp_path / "history-101.jsonl").rmdir()
        await operator.record("condition_cleared")

    await served(load_settings(of.path), break_and_mend)
    assert b"override_set" in (tmp_path / "history-101.jsonl").read_bytes()
