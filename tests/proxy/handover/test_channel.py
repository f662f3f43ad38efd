"""Messages between two processes come whole or not at all, whatever is cancelled and however slowly they are read."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from proxy.handover.channel import SEND_SECONDS, Channel, ChannelError, close_all
from proxy.handover.messages import HandOverRefusal, Ready

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG = HandOverRefusal("x" * 2**20)
"""More than the kernel takes at once."""
LIMIT_SECONDS = 20


@contextmanager
def two_ends() -> Iterator[tuple[Channel, Channel]]:
    ends = [Channel(each) for each in trio.socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)]
    try:
        yield ends[0], ends[1]
    finally:
        for end in ends:
            end.close()


async def test_a_message_of_which_a_part_is_sent_is_sent_whole_if_cancelled(nursery: trio.Nursery) -> None:
    """A connection may become too idle while it is handed over. The next one was read as the rest of it, and none after
    it went over."""
    scope, ended = trio.CancelScope(), trio.Event()
    with trio.fail_after(LIMIT_SECONDS), two_ends() as (ours, theirs):

        async def send_until_cancelled() -> None:
            with scope:
                await ours.send(LONG)
            ended.set()

        nursery.start_soon(send_until_cancelled)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        nursery.start_soon(ours.send, Ready())
        assert [(await theirs.receive())[0] for _ in range(2)] == [LONG, Ready()]
        await ended.wait()


async def test_a_message_that_waits_for_another_one_is_not_sent_if_cancelled(nursery: trio.Nursery) -> None:
    with trio.fail_after(LIMIT_SECONDS), two_ends() as (ours, theirs):
        nursery.start_soon(ours.send, LONG)
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0.01):
            await ours.send(HandOverRefusal("cancelled"))
        nursery.start_soon(ours.send, Ready())
        assert [(await theirs.receive())[0] for _ in range(2)] == [LONG, Ready()]


async def test_a_process_that_reads_nothing_holds_nobody_for_ever(autojump_clock: trio.testing.MockClock) -> None:
    with two_ends() as (ours, theirs):
        with trio.move_on_after(1.0) as scope, pytest.raises(ChannelError, match="did not take a whole message"):
            await ours.send(LONG)
        assert (trio.current_time(), scope.cancel_called) == (SEND_SECONDS, True)
        with pytest.raises(ChannelError, match="is gone"):
            await ours.send(Ready())
        with pytest.raises(ChannelError, match="in the middle of a message"):
            await theirs.receive()


async def test_the_listeners_of_a_large_cluster_go_over(nursery: trio.Nursery) -> None:
    """One for each of 200 other brokers."""
    with trio.fail_after(LIMIT_SECONDS), two_ends() as (ours, theirs), socket.socket() as listener:
        nursery.start_soon(ours.send, Ready(), [listener.fileno()] * 200)
        _, descriptors = await theirs.receive()
        assert len(descriptors) == 200
        close_all(descriptors)
