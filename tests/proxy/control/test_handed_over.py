"""Overrides at a hand-over: what the disk did not take goes over, and nothing is told twice."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from proxy.control import override_keeper
from proxy.errors import ConfigurationError
from proxy.handover.messages import Begin
from proxy.quota_files.override_store import damaged_path, load, write
from proxy.quotas.override import Selector

from .test_override_keeper import OTHER_RATE, Disk, Stage, disk, kept, override, stage, until

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["disk", "kept", "stage"]


async def test_an_undo_that_could_not_be_stored_goes_over_to_the_next_process(
    kept: Stage, disk: Disk, tmp_path: Path
) -> None:
    """The next process read the store, and put in force again what had been undone."""
    await kept.keeper.add(override("aaaa", "5MiB/s"))
    await kept.keeper.add(override("bbbb", "6MiB/s", key=OTHER_RATE))
    assert kept.keeper.unstored is None
    next_process = Stage(tmp_path)
    disk.refuses = True
    await kept.keeper.undo(Selector(id="aaaa"))
    begin = Begin({}, unstored=kept.keeper.unstored)
    told = msgspec.msgpack.decode(msgspec.msgpack.encode(begin), type=Begin).unstored
    assert told is not None
    assert next_process.rate == 5 * 2**20, "as the store has it"
    next_process.keeper.inherit(told)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(next_process.keeper.run)
        await until(lambda: next_process.keeper.not_stored is not None)
        assert (next_process.rate, [each.id for each in next_process.keeper.current]) == (20 * 2**20, ["bbbb"])
        disk.refuses = False
        await until(lambda: [each.id for each in load(kept.store, 101).overrides] == ["bbbb"])
        nursery.cancel_scope.cancel()


async def test_a_process_that_serves_again_keeps_an_undo_that_could_not_be_stored(stage: Stage, disk: Disk) -> None:
    await stage.keeper.add(override("aaaa", "5MiB/s"))
    disk.refuses = True
    for _ in range(2):  # it serves, and after a hand-over that failed it does so again
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.keeper.run)
            if stage.keeper.current:
                await stage.keeper.undo(Selector(id="aaaa"))
            await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        assert stage.rate == 20 * 2**20


async def test_an_end_that_the_next_process_tells_is_told_once(stage: Stage) -> None:
    """The process before has recorded what it stored; the history need not have it twice."""
    told = list[object]()
    stage.keeper._record = lambda _, action, __, effects: told.append((action, effects is None))
    write(stage.store, [override("ffff", 1)])
    await stage.keeper._follow_store()
    assert told == [("set", True)]


async def test_a_store_that_is_silent_at_a_hand_over_is_not_written_before_it_was_read(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was set just before was lost, and nobody told."""
    await stage.keeper.add(override("aaaa", 1, key=OTHER_RATE))
    next_process, disk = Stage(tmp_path), Disk(monkeypatch, override_keeper, "stamp", errno.EIO)
    await stage.keeper.add(override("bbbb", "5MiB/s"))
    disk.refuses = True
    keeper = next_process.keeper
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.run)
        await until(lambda: "Input/output error" in str(keeper.problem))
        with pytest.raises(ConfigurationError, match=r"nothing has changed: .*Input/output error"):
            await keeper.add(override("cccc", "6MiB/s"))
        applied = await keeper.undo(Selector(id="aaaa"))
        assert (applied.in_force, "Input/output error" in str(applied.not_stored)) == (True, True)
        assert [each.id for each in load(stage.store, 101).overrides] == ["aaaa", "bbbb"]
        disk.refuses = False
        await until(lambda: keeper.problem is None)
        assert ([each.id for each in keeper.current], next_process.rate) == (["bbbb"], 5 * 2**20)
        await until(lambda: [each.id for each in load(stage.store, 101).overrides] == ["bbbb"])
        nursery.cancel_scope.cancel()


async def test_a_change_that_comes_before_the_first_look_is_beside_what_was_stored_last(
    stage: Stage, tmp_path: Path
) -> None:
    next_process = Stage(tmp_path)
    await stage.keeper.add(override("bbbb", "5MiB/s"))
    await next_process.keeper.add(override("cccc", "6MiB/s", key=OTHER_RATE))
    assert [each.id for each in load(stage.store, 101).overrides] == ["bbbb", "cccc"]
    assert next_process.rate == 5 * 2**20


async def test_a_store_that_was_damaged_since_a_start_is_told_and_set_aside(stage: Stage, tmp_path: Path) -> None:
    next_process = Stage(tmp_path)
    await stage.keeper.add(override("aaaa", "5MiB/s"))
    stage.damage()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(next_process.keeper.run)
        await until(lambda: damaged_path(stage.store).exists() and load(stage.store, 101).problem is None)
        assert (next_process.rate, str(stage.store) in str(next_process.keeper.problem)) == (5 * 2**20, True)
        assert next_process.log.events.count("overrides_unreadable") == 1
        nursery.cancel_scope.cancel()


async def test_a_store_that_was_mended_since_a_start_stays(stage: Stage, tmp_path: Path) -> None:
    await stage.keeper.add(override("aaaa", "5MiB/s"))
    whole = stage.store.read_bytes()
    stage.damage()
    next_process = Stage(tmp_path)
    stage.store.write_bytes(whole)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(next_process.keeper.run)
        await until(lambda: next_process.keeper.problem is None)
        assert (next_process.rate, damaged_path(stage.store).exists()) == (5 * 2**20, False)
        nursery.cancel_scope.cancel()
