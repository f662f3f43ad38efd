"""What may happen to the way to quotas.toml while it is watched: the last good quotas stay, the next file is taken."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
import trio

from proxy.files import watching
from proxy.quota_files.reload import QuotaWatch
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PATIENCE_SECONDS = 20.0
RETRY_SECONDS = 0.1


def rate(bytes_per_second: int) -> str:
    return f"[brokers.1]\nleader.replication.throttled.rate = {bytes_per_second}\n"


def removed(path: Path) -> None:
    shutil.rmtree(path.parent)


def renamed(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def dangling(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.symlink_to(path.parent.with_name("nowhere"))


def circle(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def put_back(path: Path) -> None:
    for place in (path, path.parent):
        if place.is_symlink():
            place.unlink()
    if path.exists() and not path.is_file():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.parent.mkdir(exist_ok=True)
    path.write_text(rate(20))


@pytest.mark.parametrize("happens", [removed, renamed, dangling, circle, pipe, directory])
async def test_whatever_happens_to_the_way_the_last_good_quotas_stay_and_the_next_file_is_taken(
    happens: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_RETRY_SECONDS", RETRY_SECONDS)
    path = tmp_path / "quotas" / "quotas.toml"
    path.parent.mkdir()
    path.write_text(rate(10))
    log = RecordedLog()
    watch = QuotaWatch.open(path, broker_id=1, log=log)
    good, failed = watch.current, trio.Event()
    watch.observe(lambda outcome: None if outcome.error is None else failed.set())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.follow_file)
        with trio.fail_after(PATIENCE_SECONDS):
            await trio.sleep(0.2)  # it is watched by then, as a rule; and if not, it fails at once
            happens(path)
            await failed.wait()
            assert watch.current is good
            await trio.sleep(2 * RETRY_SECONDS)  # the watch is tried again meanwhile
            put_back(path)
            await watch.wait_changed(good)
        nursery.cancel_scope.cancel()
    assert watch.current.leader.bytes_per_second == 20
    assert watch.statistics.last_reload_successful
    assert log.events.count("quotas_watch_failed") <= 2
    assert log.events.count("quotas_reload_failed") <= 2, "once for each thing that was wrong"
