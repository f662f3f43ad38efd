"""A long answer is walked a step at a time: same rows, same end, however little a step is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from protocol.fetch.walker import response_walker, walk_whole
from protocol.wire.framing import with_length
from proxy.relay import response_walk
from proxy.relay.response_walk import FrameWalk, header_bytes
from tests.proxy.conversation import throttle

from .test_fast_path import window_of
from .test_responses import meet
from .wire import Key, answer, batch, entry, relayed

if TYPE_CHECKING:
    from trio.testing import MockClock

PARTITIONS = 900


def long_answer(version: int = 5) -> bytes:
    entries = [entry(p, batch(40) if p % 7 == 0 else b"", aborted=[(1, 2)]) for p in range(PARTITIONS)]
    return answer({"t" * 200: entries, "u": entries[:3]}, version=version)


@pytest.mark.parametrize("step", [1, 7, 100, 8192, 1 << 20])
async def test_steps_find_what_one_walk_finds(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_walk, "MIN_STEP_BYTES", step)
    monkeypatch.setattr(response_walk, "MAX_STEP_BYTES", step)
    frame = long_answer()
    window = window_of(with_length(frame))
    stepped = FrameWalk(window, version=5, size=len(frame))
    found: list[object] = []
    steps = 0
    while not steps or stepped.has_more:
        found += stepped.step(0)
        steps += 1
    expected, _ = walk_whole(response_walker(5, tuple), with_length(frame), 4 + header_bytes(5), 4 + len(frame))
    assert found == expected
    assert stepped.unseen(0) == 4 + len(frame)
    assert (steps > 1) == (step < len(frame))


@pytest.mark.parametrize("step", [64, 8192])
async def test_a_long_answer_passes_in_steps(step: int, clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_walk, "MIN_STEP_BYTES", step)
    monkeypatch.setattr(response_walk, "MAX_STEP_BYTES", step)
    offsets: dict[Key, int] = {("t" * 200, p): 5 for p in range(PARTITIONS)} | {("u", p): 5 for p in range(3)}
    of = throttle(float("inf"))
    async with relayed(of) as wire:
        await meet(wire, {("t", 0): 0})
        frame = long_answer(3)
        _, received = await wire.in_flight(offsets, frame)
        assert received == frame
    assert of.statistics.throttled_bytes_in_sync == 130 * (40 + 18)
