"""What a process may have of memory where it runs in a container."""

from __future__ import annotations

import gc
import math
import resource
import subprocess
import sys
import weakref
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from proxy.process.resources import (
    FULL_COLLECTION_SECONDS,
    MAX_LOOKING_SHARE,
    MAX_NEW_OBJECTS,
    WORTHWHILE_OBJECTS,
    collect_now_and_then,
    collected_by_hand,
    container_limit,
    most_bytes,
    most_connections,
    open_files_limit,
    open_files_limit_of_run,
    raise_open_files_limit,
    resident_bytes,
    too_few_open_files,
)

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock


MIB = 2**20


def group(mount: Path, name: str, limit: str | None) -> None:
    folder = mount / name
    folder.mkdir(parents=True, exist_ok=True)
    if limit is not None:
        (folder / "memory.max").write_text(limit)


@pytest.mark.parametrize(
    ("limits", "own", "expected"),
    [
        ({"": None, "pod": "536870912\n", "pod/c": "max\n"}, "0::/pod/c\n", 512 * MIB),
        ({"pod": "536870912", "pod/c": "268435456"}, "0::/pod/c\n", 256 * MIB),
        ({"": "1048576"}, "0::/\n", MIB),
        ({"pod": "max"}, "0::/pod\n", 0),
        ({}, "0::/nowhere\n", 0),
        ({"pod": "nonsense"}, "0::/pod\n", 0),
        ({"pod": "1048576"}, "12:memory:/pod\n", 0),
    ],
)
def test_the_least_of_a_container_and_of_those_around_it_counts(
    tmp_path: Path, limits: dict[str, str | None], own: str, expected: int
) -> None:
    for name, limit in limits.items():
        group(tmp_path / "mount", name, limit)
    (tmp_path / "cgroup").write_text(own)
    assert container_limit(tmp_path / "cgroup", tmp_path / "mount") == expected


def test_without_control_groups_there_is_none(tmp_path: Path) -> None:
    assert container_limit(tmp_path / "cgroup", tmp_path) == 0


@pytest.mark.parametrize(
    ("wanted", "limit", "expected"),
    [(1024, 0, 1024), (1024, 512, 460), (256, 512, 256), (0, 512, 0)],
)
def test_a_container_is_not_to_be_killed(wanted: int, limit: int, expected: int) -> None:
    assert most_bytes(wanted * MIB, limit * MIB) // MIB == expected


def test_the_process_knows_what_it_has() -> None:
    assert 10 * MIB < resident_bytes() < 100_000 * MIB


def test_what_the_process_has_is_known_without_a_free_descriptor() -> None:
    """It counted as nothing, and a process out of descriptors went on accepting whatever its memory."""
    assert resident_bytes() > MIB
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        found = resident_bytes()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found > MIB


class Ring:
    def __init__(self) -> None:
        self.itself = self


def test_while_it_lasts_python_looks_for_nothing_by_itself() -> None:
    with collected_by_hand():
        assert not gc.isenabled()
        assert gc.get_freeze_count()
    assert gc.isenabled()
    assert not gc.get_freeze_count()


def test_what_a_start_has_made_is_kept_without_a_look() -> None:
    """A look at all that has been loaded takes a twentieth of a start's CPU, and next to all of it is alive."""
    looks: list[str] = []
    gc.collect()  # no look is due while this is tried
    gone = dropped()

    def saw(phase: str, _: object) -> None:
        looks.append(phase)

    gc.callbacks.append(saw)
    try:
        with collected_by_hand():
            assert looks == []
            assert gone() is not None
    finally:
        gc.callbacks.remove(saw)
    gc.collect()
    assert gone() is None


async def test_what_is_new_is_looked_at_within_a_second(autojump_clock: MockClock) -> None:
    with collected_by_hand():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect_now_and_then)
            await trio.sleep(10)
            gone = dropped()
            assert gone() is not None
            await trio.sleep(1)
            assert gone() is None
            nursery.cancel_scope.cancel()


async def test_what_refers_to_itself_goes_now_and_then(autojump_clock: MockClock) -> None:
    ring = Ring()
    gone = weakref.ref(ring)
    with collected_by_hand():  # it is frozen now
        del ring
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect_now_and_then)
            await trio.sleep(FULL_COLLECTION_SECONDS - 1)
            gc.collect()
            assert gone() is not None
            await trio.sleep(2)
            assert gone() is None
            nursery.cancel_scope.cancel()


LOOK_TAKES_SECONDS = 0.01


@pytest.fixture
def slow_looks(monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock) -> None:
    collect = gc.collect

    def look() -> int:
        autojump_clock.jump(LOOK_TAKES_SECONDS)
        return collect()

    monkeypatch.setattr(gc, "collect", look)


def dropped() -> weakref.ref[Ring]:
    """A ring that nobody has any more."""
    return weakref.ref(Ring())


@pytest.mark.usefixtures("slow_looks")
@pytest.mark.parametrize("was_alive", [True, False])
async def test_after_a_look_for_nothing_none_is_worth_it_for_a_while(
    autojump_clock: MockClock, was_alive: bool
) -> None:
    """Under hostile answers 141 000 of 236 000 objects were garbage, and one look at all of them took 182 ms: what is
    not looked at in time is not kept for the next look."""
    with collected_by_hand():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect_now_and_then)
            alive = [Ring() for _ in range(2 * WORTHWHILE_OBJECTS)]
            if not was_alive:
                alive.clear()
            await trio.sleep(1)
            gone = dropped()
            await trio.sleep(1)
            assert (gone() is not None) == was_alive
            await trio.sleep(LOOK_TAKES_SECONDS / MAX_LOOKING_SHARE)
            later = dropped()
            await trio.sleep(LOOK_TAKES_SECONDS / MAX_LOOKING_SHARE + 1)
            assert (gone() is not None) == was_alive
            await trio.sleep(FULL_COLLECTION_SECONDS)
            assert gone() is None
            assert later() is None
            nursery.cancel_scope.cancel()


async def test_long_lists_that_come_within_a_second_are_not_looked_through(autojump_clock: MockClock) -> None:
    with collected_by_hand():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect_now_and_then)
            gone = dropped()
            lists = [[number] for number in range(MAX_NEW_OBJECTS)]
            await trio.sleep(2)
            assert gone() is not None
            assert gc.get_count()[0] < MAX_NEW_OBJECTS
            assert len(lists) == MAX_NEW_OBJECTS
            await trio.sleep(FULL_COLLECTION_SECONDS)
            assert gone() is None
            nursery.cancel_scope.cancel()


RAISED = """
import resource
from proxy.process.resources import open_files_limit, open_files_limit_of_run, raise_open_files_limit
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
raise_open_files_limit()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard), resource.getrlimit(resource.RLIMIT_NOFILE)
assert open_files_limit() == open_files_limit_of_run()
"""


def test_the_soft_limit_becomes_the_hard_one() -> None:
    subprocess.run([sys.executable, "-c", RAISED], check=True)


def test_where_the_kernel_refuses_it_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    raise_open_files_limit()
    assert (open_files_limit(), open_files_limit_of_run()) == (1024, math.inf)


@pytest.mark.parametrize(
    ("files", "most", "wanted", "is_told"),
    [
        (1024, 480, 10_000, True),
        (1024, 480, 500, False),
        (20_000, 9968, 10_000, False),
        (1024, 480, 0, False),
        (10, 1, 10_000, True),
        (math.inf, math.inf, 10_000, False),
    ],
)
def test_much_fewer_connections_than_wanted_are_told(files: float, most: float, wanted: int, *, is_told: bool) -> None:
    assert most_connections(files) == most
    told = too_few_open_files(files, wanted)
    assert (told is not None) is is_told
    if told is not None:
        assert told.startswith(f"{most:.0f} connections at most, because {files:.0f} files may be open")
        assert "needs 20064" in told
