"""Asking brokers for names of topics: when, and what comes of a broker that does not answer as it should."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from protocol.errors import ProtocolError
from protocol.metadata import METADATA_VERSION, metadata_request_layout, metadata_response_layout, topic_names_by_id
from protocol.wire.framing import with_length
from protocol.wire.headers import peek_request, response_header
from protocol.wire.layout import TAGS, parse_whole
from proxy.cluster import broker_client
from proxy.cluster.broker_client import RESPONSE_TIMEOUT_SECONDS, ask_metadata
from proxy.cluster.polling import follow
from proxy.cluster.questions import TopicNameQuestion
from proxy.config.settings import Address
from proxy.topology.topic_names import TopicNames

from ..api_versions import ASKED, metadata_to
from ..recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

ALL = (b"\1" * 16, b"\2" * 16, b"\3" * 16)
ORDERS, CLICKS, GONE = b"\1" * 16, b"\2" * 16, b"\3" * 16
BOTH = {ORDERS: "orders", CLICKS: "clicks"}


def made_up(number: int) -> bytes:
    return (number + 1).to_bytes(16)


def metadata(names: dict[bytes, str]) -> bytes:
    """A Metadata response of these topics, as the protocol's own layout builds it."""
    topics = [
        {
            "error_code": 0,
            "name": name,
            "topic_id": topic_id,
            "is_internal": False,
            "partitions": [],
            "topic_authorized_operations": -(2**31),
            TAGS: [],
        }
        for topic_id, name in names.items()
    ]
    values = {
        "throttle_time_ms": 0, "brokers": [], "cluster_id": "c", "controller_id": 101, "topics": topics, TAGS: [],
    }  # fmt: skip
    header = response_header(1).build({"correlation_id": 0, TAGS: []})
    return bytes(header + metadata_response_layout(METADATA_VERSION).build(values))


@dataclass
class Broker:
    """`says` makes the bytes of its next answer, after which it closes the connection."""

    says: Callable[[], bytes]
    asked: list[float] = field(default_factory=list)
    never: bool = False
    """It takes questions and says nothing."""

    async def serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            assert await exactly(stream, len(ASKED)) == ASKED
            await stream.send_all(metadata_to(METADATA_VERSION))
            size = int.from_bytes(await exactly(stream, 4))
            frame = await exactly(stream, size)
            head = peek_request(frame, 0, len(frame))
            assert head is not None
            assert (head.api_key, head.api_version, head.client_id) == (3, METADATA_VERSION, "throttle-sidecar")
            body = parse_whole(metadata_request_layout(METADATA_VERSION), frame[head.body_at :])
            assert body.topics
            assert all(topic.name is None and topic.topic_id != bytes(16) for topic in body.topics)
            assert not body.allow_auto_topic_creation
            self.asked.append(trio.current_time())
            if self.never:
                await trio.sleep_forever()
            data = self.says()
            for at in range(0, len(data), 7):  # in pieces
                await stream.send_all(data[at : at + 7])

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[broker_client.Broker]:
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(partial(trio.serve_listeners, self.serve, listeners))
            yield broker_client.Broker(Address(*listeners[0].socket.getsockname()[:2]))
            nursery.cancel_scope.cancel()


async def exactly(stream: trio.SocketStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += await stream.receive_some(size - len(data))
    return data


def knows(names: dict[bytes, str]) -> Broker:
    return Broker(lambda: with_length(metadata(names)))


BROKEN = {
    "nothing": b"",
    "half a prefix": b"\0\0",
    "half an answer": with_length(metadata(BOTH))[:-5],
    "not Metadata": with_length(b"\0\0\0\0\0nonsense"),
    "something behind it": with_length(metadata(BOTH) + b"!"),
    "a negative size": b"\xff\xff\xff\xff",
    "more than there may be": b"\x7f\xff\xff\xff",
}


@pytest.fixture
def clock() -> trio.testing.MockClock:
    """Time jumps only when loopback has had time to deliver."""
    return trio.testing.MockClock(autojump_threshold=0.02)


@asynccontextmanager
async def refusing() -> AsyncIterator[broker_client.Broker]:
    """Nobody listens there, and nobody else can begin to."""
    with trio.socket.socket() as sock:
        await sock.bind(("127.0.0.1", 0))
        yield broker_client.Broker(Address(*sock.getsockname()[:2]))


async def test_a_broker_tells_the_names_of_what_it_is_asked_for(clock: trio.testing.MockClock) -> None:
    async with knows(BOTH).listening() as address:
        assert await ask_metadata(address, ALL, topic_names_by_id) == BOTH


@pytest.mark.parametrize("says", BROKEN.values(), ids=BROKEN)
async def test_an_answer_that_is_none_is_an_error(says: bytes, clock: trio.testing.MockClock) -> None:
    async with Broker(lambda: says).listening() as address:
        with pytest.raises(ProtocolError):
            await ask_metadata(address, ALL, topic_names_by_id)


async def test_a_broker_that_is_not_there_is_an_error(clock: trio.testing.MockClock) -> None:
    async with refusing() as address:
        with pytest.raises(OSError, match="refused"):
            await ask_metadata(address, ALL, topic_names_by_id)


@dataclass
class Asking:
    """`run` under way."""

    names: TopicNames
    log: RecordedLog = field(default_factory=RecordedLog)
    changes: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.question = TopicNameQuestion(self.names, lambda: self.changes.append(trio.current_time()))

    @asynccontextmanager
    async def of(self, *brokers: broker_client.Broker) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, self.question, brokers, self.log)
            yield
            nursery.cancel_scope.cancel()

    @property
    def failures(self) -> list[str]:
        return [line["error"] for line in self.log.lines if line["event"] == "cluster_request_failed"]


async def eventually(true: Callable[[], bool], within: float = 60.0) -> None:
    with trio.fail_after(within):
        while not true():  # noqa: ASYNC110 what is waited for has no event
            await trio.sleep(0.05)


async def test_nobody_is_asked_before_an_id_is_met(clock: trio.testing.MockClock) -> None:
    broker, asking = knows(BOTH), Asking(TopicNames())
    async with broker.listening() as address, asking.of(address):
        await trio.sleep(60)
        assert broker.asked == []
        asking.names.of(ORDERS)
        await eventually(lambda: asking.names.known(ORDERS) == "orders")
        await eventually(lambda: len(asking.changes) == 1)
        await trio.sleep(60)
    assert len(broker.asked) == 1
    assert asking.failures == []


async def test_whatever_is_met_a_broker_is_asked_at_most_four_times_a_second(clock: trio.testing.MockClock) -> None:
    broker, asking = knows(BOTH), Asking(TopicNames())
    async with broker.listening() as address, asking.of(address):
        for number in range(100):
            asking.names.of(made_up(number))
            await trio.sleep(0.05)
    pauses = [after - before for before, after in zip(broker.asked, broker.asked[1:], strict=False)]
    assert len(broker.asked) > 10
    assert min(pauses) >= TopicNameQuestion.least_pause_seconds


async def test_an_id_in_vain_is_asked_for_again_when_it_is_met_again(clock: trio.testing.MockClock) -> None:
    known: dict[bytes, str] = {}
    broker, asking = Broker(lambda: with_length(metadata(known))), Asking(TopicNames())
    async with broker.listening() as address, asking.of(address):
        asking.names.of(GONE)
        await eventually(lambda: not asking.names.is_awaited(GONE))
        await trio.sleep(10)
        assert len(broker.asked) == 1
        known[GONE] = "late"
        asking.names.of(GONE)
        await eventually(lambda: asking.names.known(GONE) == "late")
        assert len(broker.asked) == 2


@pytest.mark.parametrize("says", [b"", *BROKEN.values()], ids=["refuses", *BROKEN])
async def test_if_one_broker_does_not_answer_the_next_does(says: bytes, clock: trio.testing.MockClock) -> None:
    asking = Asking(TopicNames())
    async with (
        refusing() as nobody,
        Broker(lambda: says).listening() as broken,
        knows(BOTH).listening() as good,
        asking.of(nobody, broken, good),
    ):
        asking.names.of(ORDERS)
        await eventually(lambda: asking.names.known(ORDERS) == "orders")
    assert asking.failures == []


async def test_a_broker_that_says_nothing_is_given_up(clock: trio.testing.MockClock) -> None:
    silent, asking = Broker(lambda: b"", never=True), Asking(TopicNames())
    async with silent.listening() as first, knows(BOTH).listening() as second, asking.of(first, second):
        began = trio.current_time()
        asking.names.of(ORDERS)
        await eventually(lambda: asking.names.known(ORDERS) == "orders")
        assert trio.current_time() - began == pytest.approx(RESPONSE_TIMEOUT_SECONDS, abs=0.1)


async def test_if_nobody_answers_it_is_said_once_and_the_ids_are_awaited_no_longer(
    clock: trio.testing.MockClock,
) -> None:
    asking = Asking(TopicNames())
    async with refusing() as nobody, asking.of(nobody):
        for number in range(3):
            asking.names.of(made_up(number))
            await eventually(lambda number=number: not asking.names.is_awaited(made_up(number)))
            await trio.sleep(1)
    assert len(asking.failures) == 1
    assert str(nobody) in asking.failures[0]
    assert len(asking.changes) == 3  # what was listed while it was awaited is so no longer
    assert asking.names.unnamed == 3


async def test_without_a_broker_to_ask_nothing_is_awaited_for_long(clock: trio.testing.MockClock) -> None:
    asking = Asking(TopicNames())
    async with asking.of():
        asking.names.of(ORDERS)
        await eventually(lambda: not asking.names.is_awaited(ORDERS))
    assert asking.failures == ["there is no broker to ask"]


async def test_a_long_answer_may_take_longer_to_be_read_than_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the names of a large cluster would never be learnt on a busy machine."""

    async def came(*_: object, **__: object) -> tuple[bytes, int]:
        await trio.lowlevel.checkpoint()
        return bytes(broker_client.INLINE_PARSE_BYTES), METADATA_VERSION

    def read(_: bytes, *, version: int) -> dict[bytes, str]:
        assert version == METADATA_VERSION
        time.sleep(0.3)
        return BOTH

    monkeypatch.setattr(broker_client, "response_of", came)
    monkeypatch.setattr(broker_client, "RESPONSE_TIMEOUT_SECONDS", 0.1)
    broker = broker_client.Broker(Address("127.0.0.1", 1))
    assert await ask_metadata(broker, list(BOTH), read) == BOTH
