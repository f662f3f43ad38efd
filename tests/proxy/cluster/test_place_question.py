"""Cluster id and rack are asked for once there is a replica, and no more once a broker has answered."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from protocol.metadata import cluster_id
from proxy.cluster import broker_client
from proxy.cluster.broker_questions import PlaceQuestion
from proxy.cluster.view import LOOK_SECONDS, RETRY_SECONDS, follow
from proxy.config.settings import Address
from tests.proxy.conversation import MIB, Conversation, throttle

from ..metadata_broker import MetadataBroker, metadata
from ..recorded_log import RecordedLog


@pytest.mark.parametrize("version", range(4, 14))
def test_every_version_that_is_asked_in_tells_it(version: int) -> None:
    assert cluster_id(metadata(version, [], {}), version=version) == "c"


async def test_it_is_asked_for_with_the_first_replica_until_a_broker_answers(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: None
) -> None:
    broker, learnt, tries = MetadataBroker({}, racks={101: "b", 102: "a"}), list[tuple[str, str]](), list[Address]()

    async def connect(address: Address) -> trio.abc.Stream:
        tries.append(address)
        if len(tries) == 1:
            raise ConnectionRefusedError(f"{address}: nobody listens")
        near, far = trio.testing.memory_stream_pair()
        nursery.start_soon(broker.serve, far)
        return near

    monkeypatch.setattr(broker_client, "open_stream", connect)
    role, address = throttle(MIB), broker_client.Broker(Address("kafka", 9092))
    question = PlaceQuestion(101, [role], lambda *place: learnt.append(place))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, question, [address], RecordedLog())
        await trio.sleep(60)
        assert tries == []
        replica = Conversation(role)
        replica.link.peer = "102"
        await trio.sleep(2 * LOOK_SECONDS)
        assert (len(tries), learnt) == (1, [])
        await trio.sleep(RETRY_SECONDS + LOOK_SECONDS)
        assert (broker.asked, learnt) == ([[]], [("c", "b")])
        await trio.sleep(3600)
        assert broker.asked == [[]]
        nursery.cancel_scope.cancel()
