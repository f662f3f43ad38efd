"""What an operator breaks is named by a running sidecar, and nothing once it is mended."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import trio

from operating.status.rows import decode, is_wrong
from protocol.wire.framing import with_length
from proxy.config.settings import load_settings
from proxy.control import override_keeper
from proxy.diagnostics import conditions
from proxy.observing import condition_checks
from proxy.quota_files import override_store
from proxy.quota_files.override_store import store_path
from proxy.statistics import counters
from tests.proxy.conversation import fetch_frame
from tests.proxy.relay.test_passing import FUTURE_FETCH
from tests.proxy.relay.wire import answer, entry, read_frame

from .test_sidecar import get, listener, port, running, settings, write_quotas

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.config.settings import Settings

    from .test_sidecar import Running

SOON = 0.3


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condition_checks, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(override_keeper, "CHECK_SECONDS", 0.02)
    monkeypatch.setattr(conditions, "GOES_ON_SECONDS", SOON)
    monkeypatch.setattr(counters, "UNREACHABLE_SECONDS", SOON)


async def names(sidecar: Running) -> list[str]:
    """What /readyz names; `status` has the same, and its exit status."""
    http = sidecar.addresses["http.listen"]
    page = decode("x", (await trio.to_thread.run_sync(get, http, "/throttle")).encode())
    ready: dict[str, Any] = json.loads(await trio.to_thread.run_sync(get, http, "/readyz"))
    assert ready["ready"] is True
    found = [each["name"] for each in ready["conditions"]]
    assert is_wrong(page) == any(each.severity != "note" for each in page.conditions or ())
    return found


async def until_named(sidecar: Running, *expected: str) -> None:
    with trio.fail_after(20):
        while await names(sidecar) != list(expected):  # noqa: ASYNC110 - what is tested has no event
            await trio.sleep(0.02)


async def test_an_upstream_that_refuses_is_named_until_it_answers(tmp_path: Path) -> None:
    """`status` showed no `!`, "lag 0", exit 0, and the incident card then said to look elsewhere."""
    write_quotas(tmp_path, '"1MiB/s"')
    async with listener() as leader:
        upstream = port(leader)
    async with running(settings(tmp_path, upstream=upstream)) as sidecar:
        await until_named(sidecar)
        async with await sidecar.dial() as follower:
            await follower.send_all(b"\0")
            await until_named(sidecar, "upstream_unreachable")
        lines = [line for line in sidecar.log.lines if line["event"] == "condition_raised"]
        assert f"127.0.0.1:{upstream} cannot be reached: " in lines[-1]["text"]
        async with (await trio.open_tcp_listeners(upstream, host="127.0.0.1"))[0] as leader:
            async with await sidecar.dial() as follower:
                await follower.send_all(b"\0")
                await (await leader.accept()).aclose()
            await until_named(sidecar)


async def test_a_rate_that_no_list_selects_is_named(tmp_path: Path) -> None:
    """It was said by `check` alone: a new replica came at 2.66 MiB/s beside "quota 300 KiB/s, enforcing"."""
    write_quotas(tmp_path, '"1MiB/s"')
    whole = (tmp_path / "quotas.toml").read_text()
    for lists in ("", '[topics.orders]\nleader.replication.throttled.replicas = "101:0"\n'):
        (tmp_path / "quotas.toml").write_text(
            f'[brokers.default]\nleader.replication.throttled.rate = "1MiB/s"\n{lists}'
        )
        async with running(settings(tmp_path, upstream=1)) as sidecar:
            with trio.fail_after(20):
                while "quota_warning" not in await names(sidecar):  # noqa: ASYNC110
                    await trio.sleep(0.02)
            (tmp_path / "quotas.toml").write_text(whole)
            await until_named(sidecar)


async def test_a_store_that_was_cut_in_half_is_named_until_the_operator_has_looked(tmp_path: Path) -> None:
    write_quotas(tmp_path, '"1MiB/s"')
    of = settings(tmp_path, upstream=1)
    store = store_path(of.quotas.state, 101)
    store.write_bytes(b"{")
    async with running(of, overrides=store) as sidecar:
        await until_named(sidecar, "overrides_damaged")
        with trio.fail_after(10):
            while not override_store.damaged_path(store).exists():  # noqa: ASYNC110
                await trio.sleep(0.02)
        override_store.damaged_path(store).unlink()
        await until_named(sidecar)


async def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_quotas(tmp_path, '"1MiB/s"')
    async with running(settings(tmp_path, upstream=1)) as sidecar:
        with monkeypatch.context() as full:
            full.setattr(override_keeper, "want_of_room", lambda _: "disk full: 0 KiB left")
            await until_named(sidecar, "overrides_not_stored")
        await until_named(sidecar)


async def test_a_wrong_file_and_one_that_is_only_observed_are_named(tmp_path: Path) -> None:
    write_quotas(tmp_path, '"1MiB/s"')
    good = (tmp_path / "quotas.toml").read_text()
    async with running(settings(tmp_path, upstream=1)) as sidecar:
        (tmp_path / "quotas.toml").write_text("[")
        await until_named(sidecar, "quotas_file_wrong")
        (tmp_path / "quotas.toml").write_text(good + "[mode]\nenforce = false\n")
        await until_named(sidecar, "observe_only")
        (tmp_path / "quotas.toml").write_text(good)
        await until_named(sidecar)


async def test_a_fetch_version_that_is_not_known_is_named_while_it_comes_and_not_for_ever(tmp_path: Path) -> None:
    """`!` stood there for ever after the first of such frames."""
    write_quotas(tmp_path, '"1MiB/s"')
    async with (
        listener() as leader,
        running(settings(tmp_path, upstream=port(leader))) as sidecar,
        await sidecar.dial() as follower,
    ):
        await follower.send_all(FUTURE_FETCH)
        async with await leader.accept() as ours:
            await read_frame(ours)
            await until_named(sidecar, "undecoded")
            await until_named(sidecar)


async def test_a_peer_whose_fetches_the_broker_refuses_is_named_and_no_replica_in_sync(tmp_path: Path) -> None:
    """It stood in `status` as in sync, with a lag of 0."""
    write_quotas(tmp_path, '"1MiB/s"')
    refused, accepted = (answer([entry(0, high_watermark=each, error=error)]) for each, error in ((-1, 29), (1, 0)))
    request = fetch_frame({("t", 0): 1})
    async with (
        listener() as leader,
        running(settings(tmp_path, upstream=port(leader))) as sidecar,
        await sidecar.dial() as follower,
    ):
        await follower.send_all(with_length(request))
        ours = await leader.accept()
        while (await read_frame(ours))[:2] != request[:2]:
            ours = await leader.accept()  # the other one is the sidecar's own
        async with ours:
            await ours.send_all(with_length(refused))
            await read_frame(follower)
            with trio.fail_after(20):
                while "fetches_refused" not in await names(sidecar):  # noqa: ASYNC110 - what is tested has no event
                    await trio.sleep(0.02)
            assert await state_of_replica(sidecar) == "refused: TOPIC_AUTHORIZATION_FAILED"
            await follower.send_all(with_length(request))
            await read_frame(ours)
            assert await state_of_replica(sidecar) == "refused: TOPIC_AUTHORIZATION_FAILED"
            await ours.send_all(with_length(accepted))
            await read_frame(follower)
            with trio.fail_after(20):
                while "fetches_refused" in await names(sidecar):  # noqa: ASYNC110 - what is tested has no event
                    await trio.sleep(0.02)
            with trio.fail_after(20):
                while await state_of_replica(sidecar) != "in sync":  # noqa: ASYNC110 - it is looked at once a second
                    await trio.sleep(0.1)


async def state_of_replica(sidecar: Running) -> str:
    page = await trio.to_thread.run_sync(get, sidecar.addresses["http.listen"], "/throttle")
    (state,) = [each.state for each in decode("x", page.encode()).roles["leader"].partitions]
    return state


async def test_a_control_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    write_quotas(tmp_path, '"1MiB/s"')
    async with running(with_control(tmp_path)) as sidecar:
        await until_named(sidecar)
        shutil.rmtree(tmp_path / "control")
        await until_named(sidecar, "control_lost")


def with_control(folder: Path) -> Settings:
    path = settings(folder, upstream=1).path
    path.write_text(f'{path.read_text()}\n[control]\ndirectory = "{folder / "control"}"\n')
    return load_settings(path)
