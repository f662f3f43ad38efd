"""What happens when in the demo, with a stage that moves by itself and a clock that jumps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from lab.demo import story
from lab.demo.stage import Check
from lab.demo.story import MIB, Script, play
from lab.errors import LabError
from lab.measuring.figures import Event

if TYPE_CHECKING:
    from collections.abc import Sequence


class SteadyStage:
    """Moves exactly at its quota, a piece every 100 ms of Trio's clock."""

    title = "steady"

    def __init__(self, total_bytes: int, *, holds: bool = True) -> None:
        self.total_bytes = total_bytes
        self.quotas: list[float] = []
        self._holds = holds
        self._seen: list[Event] = []
        self._due = 0.0

    async def set_quota(self, bytes_per_second: float) -> str:
        self.quotas.append(bytes_per_second)
        return f"quota {bytes_per_second}"

    async def begin(self) -> None:
        self._due = trio.current_time() + 0.1

    async def is_over(self) -> bool:
        while self._due <= trio.current_time() and self._moved() < self.total_bytes:
            self._seen.append(Event(self._due, int(self.quotas[-1] / 10)))
            self._due += 0.1
        return self._moved() >= self.total_bytes

    def seen(self) -> Sequence[Event]:
        return self._seen

    async def throttles(self) -> list[dict[str, Any]]:
        return []

    async def checks(self) -> list[Check]:
        return [Check("equal", self._holds, "all")]

    def _moved(self) -> int:
        return sum(event.size_bytes for event in self._seen)


class SlowToAnswer(SteadyStage):
    """Bytes move while it is still being asked for them, or for another quota."""

    async def set_quota(self, bytes_per_second: float) -> str:
        said = await super().set_quota(bytes_per_second)
        await trio.sleep(1)
        return said

    async def begin(self) -> None:
        await super().begin()
        await trio.sleep(1)
        await self.is_over()


class Listener:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.quotas: list[float] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    async def show(self, stage: object, *, started: float, quota: float) -> None:
        self.quotas.append(quota)


@pytest.fixture
def _trios_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story.time, "monotonic", trio.current_time)


@pytest.mark.usefixtures("_trios_clock")
async def test_the_quota_is_raised_on_the_way_and_each_phase_judged_by_its_own(autojump_clock: object) -> None:
    stage, listener = SteadyStage(32 * MIB), Listener()
    ending = await play(stage, Script(first=4 * MIB, raised=16 * MIB), listener)
    assert stage.quotas == [4 * MIB, 16 * MIB]
    assert [phase.quota_bytes_per_second for phase in ending.phases] == [4 * MIB, 16 * MIB]
    for phase in ending.phases:
        assert phase.mean_over_quota == pytest.approx(1.0, abs=0.1)
        assert phase.worst_second_over_quota == pytest.approx(1.0, abs=0.1)
    assert ending.total_bytes >= 32 * MIB
    assert ending.well
    assert sorted(set(listener.quotas)) == [4 * MIB, 16 * MIB]


@pytest.mark.usefixtures("_trios_clock")
async def test_every_byte_counts_but_those_of_the_moment_in_which_a_quota_takes_effect(autojump_clock: object) -> None:
    """From the moment a stage is asked, not from when it answers, to the last byte, and with that."""
    stage = SlowToAnswer(32 * MIB)
    ending = await play(stage, Script(first=4 * MIB, raised=16 * MIB), Listener())
    left_out = ending.total_bytes - sum(phase.total_bytes for phase in ending.phases)
    assert left_out <= (story.TAKES_EFFECT_SECONDS + 0.1) * 16 * MIB
    for phase in ending.phases:
        assert phase.mean_over_quota == pytest.approx(1.0, abs=0.1)
    assert sum(phase.seconds for phase in ending.phases) == pytest.approx(ending.seconds - story.TAKES_EFFECT_SECONDS)


@pytest.mark.usefixtures("_trios_clock")
async def test_a_check_that_fails_is_an_ending_that_is_not_well(autojump_clock: object) -> None:
    ending = await play(SteadyStage(4 * MIB, holds=False), Script(), Listener())
    assert not ending.well


@pytest.mark.usefixtures("_trios_clock")
async def test_a_move_without_end_is_an_error_and_not_for_ever(autojump_clock: object) -> None:
    with pytest.raises(LabError, match="the move is not over after 5 s"):
        await play(SteadyStage(10**12), Script(patience_seconds=5), Listener())
