"""Between which brokers replication runs is asked for all topics, and only while it is wanted."""

from __future__ import annotations

import trio
import trio.testing

from protocol.metadata import Links
from proxy.network.link_asking import LOOK_SECONDS, PAUSE_SECONDS, follow_links

from ..metadata_broker import MetadataBroker


async def test_it_is_asked_about_all_topics_while_it_is_wanted() -> None:
    learnt: list[Links | None] = []
    wanted = [True]
    came = trio.Event()

    def learn(links: Links | None) -> None:
        learnt.append(links)
        came.set()

    broker = MetadataBroker({"t": 1, "u": 2}, last_version=13, racks={101: None, 102: None})
    async with broker.listening() as address, trio.open_nursery() as nursery:
        nursery.start_soon(follow_links, 101, wanted.pop, learn, [address])
        with trio.fail_after(10):
            await came.wait()
        nursery.cancel_scope.cancel()
    assert learnt == [Links()]  # of one replica each, led by 101
    assert broker.asked == [["t", "u"]]


async def test_where_nobody_answers_nothing_is_known(autojump_clock: trio.testing.MockClock) -> None:
    learnt: list[Links | None] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow_links, 101, lambda: len(learnt) < 2, learnt.append, [])
        await trio.sleep(PAUSE_SECONDS + LOOK_SECONDS)
        assert learnt == [None, None]
        await trio.sleep(10 * PAUSE_SECONDS)
        nursery.cancel_scope.cancel()
    assert learnt == [None, None]
