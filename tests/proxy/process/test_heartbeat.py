from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from proxy.process.watchdog import BEAT_SECONDS, KEPT_SECONDS, Heartbeat, LoopLag

if TYPE_CHECKING:
    from trio.testing import MockClock


def test_the_worst_lag_is_shown_for_one_to_two_windows() -> None:
    lag = LoopLag()
    lag.note(0.2, 0.0)
    lag.note(0.1, KEPT_SECONDS - 0.1)
    assert lag.worst_seconds == 0.2
    lag.note(0.05, KEPT_SECONDS)
    assert lag.worst_seconds == 0.2
    lag.note(0.03, 2 * KEPT_SECONDS)
    assert lag.worst_seconds == 0.05
    lag.note(0.01, 5 * KEPT_SECONDS)
    assert lag.worst_seconds == 0.01


async def test_it_beats_ten_times_a_second_measures_how_late_and_says_when_it_ends(autojump_clock: MockClock) -> None:
    beats: list[float] = []
    rested: list[float] = []
    heart = Heartbeat([lambda: beats.append(trio.current_time())], lambda: rested.append(trio.current_time()))
    with trio.move_on_after(1.05):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(heart.run)
            await trio.sleep(0.55)
            autojump_clock.jump(0.45)  # the loop is held up
    assert len(beats) == 6
    assert round(heart.lag.worst_seconds, 3) == 0.4
    assert len(rested) == 1
    assert BEAT_SECONDS == 0.1
