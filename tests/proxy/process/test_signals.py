from __future__ import annotations

import os
import signal

import pytest
import trio
import trio.testing

from proxy.process.signals import DRAINING_SIGNALS, IGNORED_SIGNALS, follow_signals, receive_signals

from ..recorded_log import RecordedLog


async def never() -> None:
    await trio.sleep_forever()


@pytest.mark.parametrize("number", DRAINING_SIGNALS, ids=lambda number: number.name)
async def test_a_reload_that_hangs_keeps_no_drain_waiting(number: signal.Signals) -> None:
    reloads: list[str] = []
    drained = trio.Event()

    async def hang(reason: str) -> None:
        reloads.append(reason)
        await never()

    def drain(reason: str) -> None:
        assert reason == number.name
        drained.set()

    before = {of: signal.getsignal(of) for of in DRAINING_SIGNALS}
    with trio.fail_after(30), receive_signals() as received:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow_signals, received, hang, drain, RecordedLog())
            for _ in range(5):
                os.kill(os.getpid(), signal.SIGHUP)
                await trio.testing.wait_all_tasks_blocked(0.01)
            os.kill(os.getpid(), number)
            await drained.wait()
            nursery.cancel_scope.cancel()
    for of, handler in before.items():
        signal.signal(of, handler)
    assert reloads == ["SIGHUP"]


async def test_stray_signals_are_told_once_each() -> None:
    log = RecordedLog()

    async def reload(_: str) -> None:
        raise AssertionError

    with trio.fail_after(30), receive_signals() as received:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow_signals, received, reload, lambda _: None, log)
            for number in 2 * IGNORED_SIGNALS:
                os.kill(os.getpid(), number)
                await trio.testing.wait_all_tasks_blocked(0.01)
            nursery.cancel_scope.cancel()
    assert [line["signal"] for line in log.lines] == [number.name for number in IGNORED_SIGNALS]
