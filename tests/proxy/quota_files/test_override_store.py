"""The store of overrides: whole before or whole after a change, whenever its writer is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from proxy.errors import ConfigurationError
from proxy.quota_files.override_store import MAX_BYTES, MAX_OVERRIDES, before_path, edit, load, store_path
from proxy.quotas.override import Override, PlacedValue

if TYPE_CHECKING:
    from pathlib import Path

RATE = "leader.replication.throttled.rate"
NOW = datetime(2026, 12, 1, tzinfo=UTC)
WRITER = """
import sys
from pathlib import Path
from proxy.quota_files.override_store import edit
from tests.proxy.quota_files.test_override_store import made

path, first = Path(sys.argv[1]), int(sys.argv[2])
for number in range(first, first + 1000):
    edit(path, 101, lambda overrides: (*overrides[-20:], made(number)))
    print(number, flush=True)
"""


def made(number: int, **more: object) -> Override:
    values = {"id": f"{number:06x}", "by": "test", "since": NOW, "changes": (PlacedValue("broker", RATE, number),)}
    return Override(**(values | more))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return store_path(tmp_path / "quotas.toml.last-good", 101)


def test_without_a_file_there_are_none(path: Path) -> None:
    assert load(path, 101) == ((), None)


def test_what_is_stored_is_read_again(path: Path) -> None:
    edit(path, 101, lambda _: (made(1), made(2)))
    assert load(path, 101) == ((made(1), made(2)), None)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_change_begins_with_what_is_there(path: Path) -> None:
    edit(path, 101, lambda _: (made(1),))
    assert edit(path, 101, lambda before: (*before, made(2))) == ((made(1),), (made(1), made(2)))


def test_what_a_change_refuses_writes_nothing(path: Path) -> None:
    edit(path, 101, lambda _: (made(1),))

    def refuse(_: object) -> tuple[Override, ...]:
        raise ConfigurationError("no")

    with pytest.raises(ConfigurationError, match="no"):
        edit(path, 101, refuse)
    assert load(path, 101).overrides == (made(1),)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"schema":2,"sha256":"","overrides":[]}', b"\xff" * 100])
def test_a_damaged_store_leaves_the_generation_before_in_force_and_refuses_changes(path: Path, damage: bytes) -> None:
    edit(path, 101, lambda _: (made(1),))
    edit(path, 101, lambda _: (made(2),))
    path.write_bytes(damage)
    loaded = load(path, 101)
    assert loaded.overrides == (made(1),)
    assert loaded.problem is not None
    assert str(path) in loaded.problem
    with pytest.raises(ConfigurationError):
        edit(path, 101, lambda before: before)


def test_one_byte_flipped_is_noticed(path: Path) -> None:
    edit(path, 101, lambda _: (made(7),))
    path.write_bytes(path.read_bytes().replace(b'"value":7', b'"value":8'))
    assert "sha256" in str(load(path, 101).problem)


def test_too_many_and_too_large_are_refused(path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"expected at most {MAX_OVERRIDES} overrides, found 501"):
        edit(path, 101, lambda _: tuple(made(number) for number in range(MAX_OVERRIDES + 1)))
    with pytest.raises(ConfigurationError, match=f"expected at most {MAX_BYTES} bytes"):
        edit(path, 101, lambda _: (made(1, reason="x" * MAX_BYTES),))
    assert load(path, 101) == ((), None)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="overrides cannot be stored: No such file"):
        edit(tmp_path / "missing" / "overrides-101.json", 101, lambda _: (made(1),))


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
    assert not before_path(path).exists() or load(before_path(path), 101).problem is None
    return acknowledged[-1] - last
