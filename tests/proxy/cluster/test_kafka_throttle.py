"""A throttle of Kafka's own, left in the broker's config: asked for once a minute, named while it is lower."""

from __future__ import annotations

import struct
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from protocol.wire.framing import with_length
from proxy.cluster.broker_client import Broker
from proxy.cluster.kafka_throttle import KAFKA_THROTTLE_SECONDS, KEYS, KafkaThrottleQuestion
from proxy.cluster.polling import follow
from proxy.config.settings import Address
from proxy.roles import Role

from ..api_versions import known
from ..recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from trio.testing import MockClock

DESCRIBES = known((32, 1, 4))


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def answer(configs: Mapping[str, str], error_code: int = 0) -> bytes:
    listed = b"".join(text(key) + text(value) + bytes([0, 2, 0, 0, 0, 0, 0]) for key, value in configs.items())
    head = struct.pack(">iiihhb", 0, 0, 1, error_code, -1, 4) + text("101") + struct.pack(">i", len(configs))
    return with_length(head + listed)


@asynccontextmanager
async def broker_that_says(*said: bytes) -> AsyncIterator[Broker]:
    """It answers each request of a connection by the next of these, then it closes it."""

    async def serve(stream: trio.abc.Stream) -> None:
        async with stream:
            for each in said:
                if await stream.receive_some(1000):
                    await stream.send_all(each)

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(partial(trio.serve_listeners, serve, listeners))
        yield Broker(Address(*listeners[0].socket.getsockname()[:2]))
        nursery.cancel_scope.cancel()


async def asked_of(broker: Broker) -> Mapping[Role, int]:
    return await KafkaThrottleQuestion(101, lambda _: True, lambda _: None).ask(broker)


async def test_both_rates_are_learnt() -> None:
    configs = {KEYS[Role.LEADER]: "1048576", KEYS[Role.FOLLOWER]: "0"}
    async with broker_that_says(DESCRIBES, answer(configs)) as broker:
        assert await asked_of(broker) == {Role.LEADER: 1 << 20, Role.FOLLOWER: 0}


@pytest.mark.parametrize(
    "said",
    [
        (DESCRIBES, answer({})),
        (DESCRIBES, answer({KEYS[Role.LEADER]: "-1"})),
        (DESCRIBES, answer({KEYS[Role.LEADER]: "fast"})),
        (DESCRIBES, answer({KEYS[Role.LEADER]: "9" * 5000})),
        (DESCRIBES, answer({}, error_code=31)),  # CLUSTER_AUTHORIZATION_FAILED
        (DESCRIBES, answer({}, error_code=42)),  # INVALID_REQUEST: it is another broker
        (DESCRIBES, with_length(b"nonsense")),
        (DESCRIBES, with_length(b"")),
        (known((3, 0, 4)),),  # before 0.11
        (known((32, 0, 0)),),
        (),
    ],
)
async def test_what_is_not_said_is_not_known(said: tuple[bytes, ...]) -> None:
    async with broker_that_says(*said) as broker:
        assert await asked_of(broker) == {}


async def test_one_that_is_not_there_is_asked_once_a_minute_without_a_line(
    autojump_clock: MockClock,
) -> None:
    learnt: list[tuple[float, Mapping[Role, int]]] = []
    log = RecordedLog()
    unreachable = Broker(Address("127.0.0.1", 1))
    question = KafkaThrottleQuestion(101, lambda _: True, lambda rates: learnt.append((trio.current_time(), rates)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, question, [unreachable], log)
        await trio.sleep(2.5 * KAFKA_THROTTLE_SECONDS)
        nursery.cancel_scope.cancel()
    assert [rates for _, rates in learnt] == [{}] * 3
    assert learnt[1][0] - learnt[0][0] >= KAFKA_THROTTLE_SECONDS
    assert log.lines == []
