"""Links between brokers are asked for from all topics, and only while they are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
import trio.testing

from proxy.cluster.polling import LOOK_SECONDS, follow
from proxy.cluster.questions import LINKS_SECONDS, LinkQuestion

from ..metadata_broker import MetadataBroker
from ..recorded_log import RecordedLog

if TYPE_CHECKING:
    from protocol.metadata import Links


async def test_all_topics_are_asked_for_while_links_are_wanted() -> None:
    learnt: list[Links | None] = []
    wanted = [True]
    came = trio.Event()

    def learn(links: Links | None) -> None:
        learnt.append(links)
        came.set()

    broker = MetadataBroker({"t": 1, "u": 2}, last_version=13, racks={101: None, 102: None})
    async with broker.listening() as address, trio.open_nursery() as nursery:
        nursery.start_soon(follow, LinkQuestion(101, lambda _: wanted.pop(), learn), [address], RecordedLog())
        with trio.fail_after(10):
            await came.wait()
        nursery.cancel_scope.cancel()
    (links,) = learnt
    assert links is not None
    assert (links.leaders, links.followers) == (frozenset(), frozenset())  # of one replica each, led by 101
    assert set(links.hosts) == {101, 102}
    assert broker.asked == [["t", "u"]]


async def test_without_an_answer_links_are_unknown(autojump_clock: trio.testing.MockClock) -> None:
    learnt: list[Links | None] = []
    question = LinkQuestion(101, lambda _: len(learnt) < 2, learnt.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, question, [], RecordedLog())
        await trio.sleep(LINKS_SECONDS + LOOK_SECONDS)
        assert learnt == [None, None]
        await trio.sleep(10 * LINKS_SECONDS)
        nursery.cancel_scope.cancel()
    assert learnt == [None, None]
