"""The store of overrides: whole before or whole after a change, whenever its writer is killed."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from proxy.errors import ConfigurationError
from proxy.quota_files.override_store import (
    MAX_BYTES,
    Loaded,
    copy_path,
    damaged_path,
    load,
    set_aside,
    stamp,
    store_path,
    want_of_room,
    write,
)
from proxy.quotas.override import Override, PlacedValue, layer_of

if TYPE_CHECKING:
    from pathlib import Path

RATE = "leader.replication.throttled.rate"
NOW = datetime(2026, 12, 1, tzinfo=UTC)
WRITER = """
import sys
from pathlib import Path
from proxy.quota_files.override_store import write
from tests.proxy.quota_files.test_override_store import made

path, first = Path(sys.argv[1]), int(sys.argv[2])
for number in range(first, first + 1000):
    write(path, [made(each) for each in range(max(number - 20, 1), number + 1)])
    print(number, flush=True)
"""


def made(number: int, **more: object) -> Override:
    values = {"id": f"{number:06x}", "by": "test", "since": NOW, "changes": (PlacedValue("broker", RATE, number),)}
    return Override(**(values | more))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return store_path(tmp_path / "quotas.toml.last-good", 101)


def test_without_a_file_there_are_none(path: Path) -> None:
    assert load(path, 101) == Loaded()


def test_what_is_stored_is_read_again_with_its_layers(path: Path) -> None:
    write(path, [made(1), made(2)])
    loaded = load(path, 101)
    assert (loaded.overrides, loaded.problem, loaded.found) == ((made(1), made(2)), None, True)
    assert loaded.layers == {each.id: layer_of(each, 101) for each in (made(1), made(2))}
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_reassignment_of_a_move_is_kept_and_nothing_is_written_of_one_that_is_not(path: Path) -> None:
    """Releases before know no such key, and would refuse the whole store."""
    write(path, [made(1, reassignment='{"version":1}')])
    assert load(path, 101).overrides == (made(1, reassignment='{"version":1}'),)
    write(path, [made(1)])
    assert b"reassignment" not in path.read_bytes()


@pytest.mark.parametrize("damage", [None, b"", b"{", b'{"schema":2,"sha256":"","overrides":[]}', b"\xff" * 100])
def test_of_a_lost_or_damaged_file_the_copy_counts_and_nothing_is_lost(path: Path, damage: bytes | None) -> None:
    write(path, [made(1)])
    write(path, [made(1), made(2)])
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    loaded = load(path, 101)
    assert (loaded.overrides, loaded.found) == ((made(1), made(2)), True)
    assert (loaded.problem is None) == (damage is None)
    assert damage is None or str(path) in str(loaded.problem)


def test_a_damaged_file_without_a_copy_is_set_aside(path: Path) -> None:
    write(path, [made(1)])
    copy_path(path).unlink()
    path.write_bytes(path.read_bytes()[:40])
    loaded = load(path, 101)
    assert (loaded.overrides, loaded.found, str(path) in str(loaded.problem)) == ((), True, True)
    set_aside(path)
    assert (path.exists(), len(damaged_path(path).read_bytes())) == (False, 40)
    set_aside(path)


def test_one_byte_flipped_is_noticed(path: Path) -> None:
    write(path, [made(7)])
    path.write_bytes(path.read_bytes().replace(b'"value":7', b'"value":8'))
    assert "sha256" in str(load(path, 101).problem)


def test_too_large_is_refused(path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"expected at most {MAX_BYTES} bytes"):
        write(path, [made(1, reason="x" * MAX_BYTES)])
    assert load(path, 101) == Loaded()


def test_a_place_that_cannot_be_written_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "missing" / "overrides-101.json", [made(1)])


def test_links_are_not_needed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    for number in range(3):
        write(path, [made(number)])
    assert load(path, 101).overrides == (made(2),)


def test_a_write_that_fails_leaves_the_store_and_no_litter(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, [made(1)])

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(path, [made(2)])
    assert load(path, 101).overrides == (made(1),)
    assert {each.name for each in path.parent.iterdir()} == {path.name, copy_path(path).name}


def test_what_root_writes_belongs_to_the_owner_of_the_directory(path: Path) -> None:
    os.chown(path.parent, 12345, 23456)
    path.with_name(f"{path.name}.new").write_bytes(b"of a crash")
    write(path, [made(1)])
    for each in (path, copy_path(path)):
        status = each.stat()
        assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (12345, 23456, 0o600)


def test_a_stamp_tells_another_file_of_the_same_name(path: Path) -> None:
    assert stamp(path) is None
    known = write(path, [made(1)])
    assert stamp(path) == known
    assert write(path, [made(1)]) != known


def test_a_full_disk_and_one_that_is_read_only_are_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert want_of_room(path) is None
    found = os.statvfs(path.parent)
    values = {name: getattr(found, name) for name in ("f_flag", "f_bfree", "f_bavail", "f_frsize")}
    monkeypatch.setattr(
        os, "statvfs", lambda _: SimpleNamespace(**(values | {"f_bfree": 5, "f_bavail": 5, "f_frsize": 4096}))
    )
    assert want_of_room(path) == "disk full: 20 KiB left"
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(**(values | {"f_flag": os.ST_RDONLY})))
    assert want_of_room(path) == "read-only file system"


@pytest.mark.parametrize("seed", range(15))
def test_a_writer_that_is_killed_leaves_all_it_acknowledged_and_nothing_half(path: Path, seed: int) -> None:
    killed_at_a_random_moment(path, random.Random(seed))


def killed_at_a_random_moment(path: Path, draw: random.Random) -> int:
    """Kill a writer somewhere in its changes; return how many it had acknowledged."""
    last = max((int(each.id, 16) for each in load(path, 101).overrides), default=0)
    command = [sys.executable, "-c", WRITER, str(path), str(last + 1)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline())]
        time.sleep(draw.uniform(0, 0.05))
        os.kill(writer.pid, signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout.read().splitlines() if line.isdigit()]
    loaded = load(path, 101)
    assert loaded.problem is None
    ids = [int(each.id, 16) for each in loaded.overrides]
    assert ids[-1] in (acknowledged[-1], acknowledged[-1] + 1)
    assert ids == list(range(max(ids[0], 1), ids[-1] + 1))
    assert all(made(number) == each for number, each in zip(ids, loaded.overrides, strict=True))
    assert not copy_path(path).exists() or load(copy_path(path), 101).problem is None
    return acknowledged[-1] - last
