from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from proxy.quota_files.effective_quotas import Source
from proxy.quota_files.quota_file import keep_last_good
from proxy.quota_files.reload import QuotaWatch, ReloadResult
from tests.proxy.recorded_log import RecordedLog

from ..hanging_disk import hanging_disk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOOD = b"[brokers.1]\nleader.replication.throttled.rate = 10\n"
NEWER = b"[brokers.1]\nleader.replication.throttled.rate = 20\n"


def instead(make: Callable[[Path], None]) -> Callable[[Path], None]:
    """Something else in the place of the file."""

    def replace(path: Path) -> None:
        path.unlink()
        make(path)

    return replace


BAD: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b" \n"),
    "misspelt": lambda path: path.write_bytes(GOOD.replace(b"rate", b"rates")),
    "half": lambda path: path.write_bytes(GOOD[:20]),
    "not UTF-8": lambda path: path.write_bytes(b"\xff"),
    "a directory": instead(lambda path: path.mkdir()),
    "a pipe": instead(os.mkfifo),
    "a gigabyte": lambda path: os.truncate(path, 2**30),
    "a link to nowhere": instead(lambda path: path.symlink_to("nowhere")),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "quotas.toml"
    path.write_bytes(GOOD)
    return path


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_a_good_file_goes_before_whatever_was_kept(path: Path, state: Path) -> None:
    keep_last_good(state, NEWER, 1.0)
    watch = QuotaWatch.open(path, broker_id=1, log=RecordedLog(), state=state)
    assert (watch.source, watch.current.leader.bytes_per_second) == (Source.FILE, 10)


@pytest.mark.parametrize("damage", BAD.values(), ids=BAD)
async def test_a_bad_file_means_the_last_good_one(path: Path, state: Path, damage: Callable[[Path], object]) -> None:
    keep_last_good(state, NEWER, 1234.0)
    damage(path)
    log = RecordedLog()
    watch = QuotaWatch.open(path, broker_id=1, log=log, state=state)
    assert (watch.source, watch.current.leader.bytes_per_second) == (Source.LAST_GOOD, 20)
    assert not watch.statistics.last_reload_successful
    assert watch.statistics.last_success_timestamp_seconds == 1234.0
    assert [(line["event"], line["level"], line["in_force"]) for line in log.lines] == [
        ("quotas_bad_at_start", "error", "last_good")
    ]
    assert str(path) in str(log.lines[0]["error"])
    assert log.lines[0]["saved_at"] == datetime(1970, 1, 1, 0, 20, 34, tzinfo=UTC)
    assert (await watch.reload("watch")).result is ReloadResult.FAILED
    assert log.events == ["quotas_bad_at_start"], "said once, as long as it is the same"
    assert watch.source is Source.LAST_GOOD
    assert await watch.wait_good(None) == NEWER


@pytest.mark.parametrize("damage", BAD.values(), ids=BAD)
@pytest.mark.parametrize("kept", [None, b"{"], ids=["nothing kept", "what was kept is damaged"])
async def test_without_one_there_is_no_quota_loudly_until_the_file_is_right(
    path: Path, state: Path, damage: Callable[[Path], object], kept: bytes | None
) -> None:
    keep(state, kept)
    damage(path)
    log = RecordedLog()
    watch = QuotaWatch.open(path, broker_id=1, log=log, state=state)
    assert (watch.source, watch.current.hash) == (Source.NONE, "none")
    assert watch.current.leader.selects_nothing
    assert watch.statistics.last_success_timestamp_seconds is None
    assert [(line["event"], line["level"], line["in_force"]) for line in log.lines] == [
        ("quotas_bad_at_start", "error", "none")
    ]
    assert str(state) in str(log.lines[0]["state"])
    put_right(path)
    assert (await watch.reload("watch")).result is ReloadResult.CHANGED
    assert (watch.source, watch.current.leader.bytes_per_second) == (Source.FILE, 10)
    assert log.events == ["quotas_bad_at_start", "quotas_reloaded"]


def keep(state: Path, content: bytes | None) -> None:
    if content is not None:
        state.write_bytes(content)


def put_right(path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    path.write_bytes(GOOD)


@pytest.mark.parametrize(
    ("hanging", "in_force"),
    [({"quotas.toml"}, Source.LAST_GOOD), ({"quotas.toml", "state"}, Source.NONE), ({"state"}, Source.FILE)],
)
def test_a_disk_that_hangs_keeps_no_start_waiting(
    path: Path, state: Path, monkeypatch: pytest.MonkeyPatch, hanging: set[str], in_force: Source
) -> None:
    """The process never listened, and with it replication ended for as long as the disk hung."""
    keep_last_good(state, NEWER, 1.0)
    log, began = RecordedLog(), time.monotonic()
    with hanging_disk(monkeypatch, lambda file: file.name in hanging, most_seconds=0.5):
        watch = QuotaWatch.open(path, broker_id=1, log=log, state=state)
        assert time.monotonic() - began < 15  # it hangs for 20 s
    assert watch.source is in_force
    assert [line["error"] for line in log.lines] == (
        [f"{path}: cannot be read: no answer within 0.5 s"] if "quotas.toml" in hanging else []
    )
