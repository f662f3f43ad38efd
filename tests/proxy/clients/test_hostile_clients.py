"""Client quotas before clients that cheat: whoever shares a quota with them, or the listener, must not pay for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from protocol.wire.framing import with_length
from proxy.quotas.client_entity import ClientEntity
from proxy.quotas.client_rates import ClientRates, TrafficRates
from proxy.quotas.keys import ClientTraffic
from proxy.quotas.rules import Quotas
from tests.proxy.clients.frames import fetch_request, fetch_response, parsed_fetch, produce_request
from tests.proxy.clients.test_frames import MB, both, carried, clients, fetched, produced, quotas

from ..relay.wire import patient_clock, read_frame, relayed

if TYPE_CHECKING:
    from trio.testing import MockClock

PRODUCER, CONSUMER = ClientTraffic
PIPELINED = 100


@pytest.fixture
def clock() -> MockClock:
    return patient_clock()


@pytest.mark.parametrize("acks", [0, 1])
async def test_pipelined_produces_pass_one_by_one_at_the_rate(clock: MockClock, acks: int) -> None:
    size = 10_000
    async with relayed(clients=clients(quotas(100_000))) as wire:
        flood = b"".join(with_length(produce_request(size, acks=acks, correlation_id=n)) for n in range(PIPELINED))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.follower.send_all, flood)
            arrived = []
            for _ in range(PIPELINED):
                await read_frame(wire.leader)
                arrived.append(trio.current_time())
    assert arrived[-1] == pytest.approx(PIPELINED * size / 100_000, abs=0.5)
    for began in range(10):
        assert sum(began <= at < began + 1 for at in arrived) * size <= 1.25 * 100_000 + size


@pytest.mark.parametrize("by_trio", [False, True])
async def test_pipelined_fetches_bring_one_answer_at_a_time(clock: MockClock, *, by_trio: bool) -> None:
    """A broker reads a connection's next request once it has answered the last one. Without that a hundred answers of
    a second of the quota each are on their way before the first is charged."""
    record_bytes = 800_000
    async with relayed(clients=clients(), by_trio=by_trio) as wire:
        flood = b"".join(with_length(fetch_request(correlation_id=n)) for n in range(PIPELINED))
        received = []

        async def broker() -> None:
            for n in range(12):
                await read_frame(wire.leader)
                await wire.leader.send_all(with_length(fetch_response(record_bytes, correlation_id=n)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.follower.send_all, flood)
            nursery.start_soon(broker)
            for _ in range(12):
                await read_frame(wire.follower)
                received.append(trio.current_time())
    assert received[-1] == pytest.approx((11 * record_bytes - 250_000) / MB, abs=0.3)
    for began in range(9):
        assert sum(began <= at < began + 1 for at in received) * record_bytes <= 1.25 * MB + record_bytes


async def test_other_requests_may_follow_a_fetch_at_once(clock: MockClock) -> None:
    heartbeat = (12).to_bytes(2) + (0).to_bytes(2) + (9).to_bytes(4) + b"\xff\xff" + bytes(10)
    async with relayed(clients=clients()) as wire:
        await carried(fetch_request(), wire.follower, wire.leader)
        assert await carried(heartbeat, wire.follower, wire.leader) == heartbeat
        assert trio.current_time() < 0.1


async def test_a_produce_that_is_announced_and_never_sent_is_not_charged(clock: MockClock) -> None:
    """Fourteen bytes that say 2 GB would mute everybody of that client id for half an hour."""
    of = clients()
    async with both(of) as (liar, other):
        announced = (2**31 - 1).to_bytes(4) + produce_request(100)
        await liar.follower.send_all(announced)
        assert await liar.leader.receive_some(1000)
        assert (await produced(other, 1000))[1] == 0
        await liar.follower.aclose()
        await liar.finished.wait()
        assert (await produced(other, 1000))[1] == 0
    assert of.passed_bytes["app", PRODUCER] < 3000


async def test_a_produce_that_is_broken_off_is_charged_as_far_as_it_came(clock: MockClock) -> None:
    of = clients()
    async with both(of) as (quitter, other):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(quitter.follower.send_all, with_length(produce_request(2 * MB))[: MB + 250_000])
            left = MB + 250_000
            while left:
                left -= len(await quitter.leader.receive_some(left))
        await quitter.follower.aclose()
        await quitter.finished.wait()
        seen, _ = await produced(other, 1000)
        assert seen == pytest.approx(1.0, abs=0.1)


async def test_a_large_produce_is_charged_once_it_is_through(clock: MockClock) -> None:
    async with relayed(clients=clients()) as wire:
        began, ms = await produced(wire, 3 * MB)
        assert ms == pytest.approx(2750, abs=60)
        seen, _ = await produced(wire, 1000)
        assert seen - began == pytest.approx(2.75, abs=0.06)


async def test_client_ids_that_change_with_each_request_share_the_quota_of_their_glob(clock: MockClock) -> None:
    rates = TrafficRates({ClientEntity(None, "app-*"): MB})
    of = clients(Quotas(clients=ClientRates(rates, rates)))
    async with relayed(clients=of) as wire:
        for n in range(10):
            request = produce_request(MB, client_id=f"app-{n}", acks=0)
            assert await carried(request, wire.follower, wire.leader) == request
        assert trio.current_time() == pytest.approx(9 - 0.25, abs=0.3)
    assert set(of.passed_bytes) == {("app-*", PRODUCER)}


async def test_half_a_frame_while_muted(clock: MockClock) -> None:
    async with relayed(clients=clients()) as wire:
        await produced(wire, MB)
        frame = with_length(produce_request(1000))
        await wire.follower.send_all(frame[:9])
        await trio.sleep(2)  # the mute ends with half of a header there
        await wire.follower.send_all(frame[9:500])
        await trio.sleep(2)
        await wire.follower.send_all(frame[500:])
        assert with_length(await read_frame(wire.leader)) == frame


async def test_a_broker_that_closes_an_idle_connection_ends_a_mute(clock: MockClock) -> None:
    """connections.max.idle.ms holds for muted connections, as at a broker."""
    async with relayed(clients=clients()) as wire:
        await produced(wire, 1000 * MB // 100)
        await wire.follower.send_all(with_length(produce_request(1000)))
        await wire.leader.send_eof()
        assert await wire.follower.receive_some(1) == b""
        assert trio.current_time() < 0.2


async def test_an_answer_to_a_fetch_that_never_comes_mutes_nobody(clock: MockClock) -> None:
    async with both(clients()) as (silent, other):
        await carried(fetch_request(), silent.follower, silent.leader)
        for _ in range(3):
            assert parsed_fetch((await fetched(other, 10_000))[2]).throttle_time_ms == 0
