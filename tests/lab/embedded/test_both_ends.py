"""Our own leader and follower without anything between them: they do what Kafka's would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from lab.embedded.follower import EmbeddedFollower, FetcherSettings, InvalidFullFetchResponseError
from lab.embedded.leader import EmbeddedLeader
from protocol.own_requests import api_versions_request
from protocol.wire.framing import with_length
from tests.proxy.conversation import fetch_frame
from tests.proxy.relay.wire import T0, T1, answer, batch, entry, parsed, read_all, read_exactly, read_frame

if TYPE_CHECKING:
    from trio.testing import MockClock

TWO = {T0: 0, T1: 0}


async def fetch(address: tuple[str, int], frame: bytes, *, version: int = 3) -> list[object]:
    async with await trio.open_tcp_stream(*address) as stream:
        await stream.send_all(with_length(frame))
        return list(parsed(await read_frame(stream), version=version))


def leader_of(counts: dict[tuple[str, int], int]) -> EmbeddedLeader:
    leader = EmbeddedLeader(value_bytes=66)  # 100 bytes a message
    for key, count in counts.items():
        leader.log(*key)
        leader.produce(*key, count)
    return leader


async def test_limits_are_kip_74s(clock: MockClock) -> None:
    """Each partition up to its limit; the first with data gets one message even if that is more."""
    leader = leader_of({T0: 10, T1: 10})
    async with leader.listening() as address:
        assert await fetch(address, fetch_frame(TWO, limit=350)) == [(T0, 0, 10, 300), (T1, 0, 10, 300)]
        assert await fetch(address, fetch_frame(TWO, limit=1)) == [(T0, 0, 10, 100), (T1, 0, 10, 0)]


async def test_below_v3_a_limit_below_a_message_brings_nothing(clock: MockClock) -> None:
    async with leader_of({T0: 10}).listening() as address:
        frame = fetch_frame({T0: 0}, limit=99, version=2, max_wait_ms=0)
        assert await fetch(address, frame, version=2) == [(T0, 0, 10, 0)]


async def test_without_data_it_waits_for_max_wait_ms_or_for_data(clock: MockClock) -> None:
    leader = leader_of({T0: 0})
    async with leader.listening() as address, trio.open_nursery() as nursery:
        assert await fetch(address, fetch_frame({T0: 0})) == [(T0, 0, 0, 0)]
        assert trio.current_time() == pytest.approx(0.5)

        async def produce() -> None:
            await trio.sleep(0.1)
            leader.produce(*T0, 1)

        nursery.start_soon(produce)
        assert await fetch(address, fetch_frame({T0: 0})) == [(T0, 0, 1, 100)]
        assert trio.current_time() == pytest.approx(0.6)


async def test_an_unknown_partition_is_an_error(clock: MockClock) -> None:
    async with leader_of({}).listening() as address:
        assert await fetch(address, fetch_frame({T0: 0}, max_wait_ms=0)) == [(T0, 3, -1, 0)]


async def test_what_is_no_fetch_costs_that_connection_alone(clock: MockClock) -> None:
    """Such as a browser's request to the demo's leader."""
    leader = leader_of({T0: 1})
    async with leader.listening() as address:
        async with await trio.open_tcp_stream(*address) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert await read_all(stream) == b""
        assert await fetch(address, fetch_frame({T0: 0})) == [(T0, 0, 1, 100)]
    assert len(leader.refused) == 1


async def test_a_question_for_versions_is_closed_and_is_no_offence(clock: MockClock) -> None:
    """A sidecar asks for racks by itself; a test that counts offences must not count that."""
    leader = leader_of({T0: 1})
    async with leader.listening() as address, await trio.open_tcp_stream(*address) as stream:
        await stream.send_all(with_length(api_versions_request(0, client_id="sidecar")))
        assert await read_all(stream) == b""
    assert (leader.requests, leader.refused) == ([], [])


async def test_a_follower_catches_up_and_then_waits_at_the_leader(clock: MockClock) -> None:
    leader = leader_of({T0: 500, T1: 300})
    follower = EmbeddedFollower([T0, T1], value_bytes=66)
    async with leader.listening() as address, trio.open_nursery() as nursery:
        nursery.start_soon(follower.run, *address)
        await follower.wait_caught_up({T0: 500, T1: 300})
        await trio.sleep(5.1)
        nursery.cancel_scope.cancel()
    assert follower.fetches == 12  # one with data, then one every 0.5 s
    assert {key: log.digest() for key, log in follower.logs.items()} == {
        key: log.digest() for key, log in leader.logs.items()
    }


async def test_a_broken_connection_costs_the_back_off(clock: MockClock) -> None:
    leader = leader_of({T0: 5})
    follower = EmbeddedFollower([T0], value_bytes=66)
    async with leader.listening("127.88.41.1") as address:  # where nobody else takes the port while it is dead
        pass
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follower.run, *address)
        await trio.sleep(2.5)
        assert follower.reconnects == 3
        async with leader.listening(*address):
            await follower.wait_caught_up({T0: 5})
            assert trio.current_time() == pytest.approx(3)
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        pytest.param([entry(0)], "asked for", id="one is missing"),
        pytest.param([entry(0), entry(1), entry(2)], "asked for", id="one is extra"),
        pytest.param([entry(0), entry(1, None)], "null", id="null records"),
        pytest.param([entry(0), entry(1, batch(77))], "not whole messages", id="half a message"),
    ],
)
async def test_it_dies_of_what_kills_a_fetcher(entries: list[dict[str, object]], why: str, clock: MockClock) -> None:
    """If the sidecar ever sends such an answer, a test that uses this follower fails."""
    follower = EmbeddedFollower([T0, T1], value_bytes=66, settings=FetcherSettings(version=3))
    async with (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0] as listener:

        async def lead() -> None:
            async with await listener.accept() as stream:
                size = int.from_bytes(await read_exactly(stream, 4))
                await read_exactly(stream, size)
                await stream.send_all(with_length(answer(entries, correlation_id=1)))
                await trio.sleep_forever()

        died = pytest.RaisesGroup(
            pytest.RaisesExc((InvalidFullFetchResponseError, ValueError), match=why), flatten_subgroups=True
        )
        with died:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lead)
                nursery.start_soon(follower.run, *listener.socket.getsockname()[:2])
