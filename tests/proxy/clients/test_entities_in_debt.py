"""An entity in debt holds what is charged, on all of its connections, in the order in which it came; no other does."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from protocol.wire.framing import with_length
from proxy.changes import Changes
from proxy.clients.connection import ClientConnection
from proxy.clients.entity import ClientDebt, Sending
from proxy.clients.throttle import MAX_ENTITIES, Uncharged
from proxy.handover.connection_state import restore, take
from proxy.handover.messages import ConnectionState
from proxy.quotas.keys import ClientTraffic
from proxy.quotas.rules import Quotas
from proxy.relay.connection import Given
from proxy.topology.racks import Relayed
from tests.proxy.clients.frames import produce_request, produce_response, share_fetch_request, told_ms
from tests.proxy.clients.test_frames import MB, carried, clients, produced, quotas

from ..relay.wire import Wire, patient_clock, read_frame, relayed

if TYPE_CHECKING:
    from trio.testing import MockClock

    from proxy.clients.throttle import ClientThrottle
    from proxy.relay.connection import Connection

PRODUCER, CONSUMER = ClientTraffic
HEARTBEAT = (12).to_bytes(2) + (0).to_bytes(2) + (9).to_bytes(4) + b"\xff\xff" + bytes(10)


@pytest.fixture
def clock() -> MockClock:
    return patient_clock()


async def passed(of: ClientThrottle, request: bytes, *, at: list[float]) -> None:
    """Dial, send a request, have it answered, and leave."""
    async with relayed(clients=of) as wire:
        await wire.follower.send_all(with_length(request))
        await read_frame(wire.leader)
        at.append(trio.current_time())
        await carried(produce_response(), wire.leader, wire.follower)


async def test_one_request_of_each_connection_keeps_to_the_quota(clock: MockClock) -> None:
    """Each new connection was let send one: 20 times the quota, and 86 times at a broker."""
    of, at = clients(quotas(200_000)), list[float]()
    while not at or at[-1] < 6:
        await passed(of, produce_request(20_000), at=at)
    assert len(at) * 20_000 <= 200_000 * (at[-1] + 0.25) + 2 * 20_000
    assert len(at) * 20_000 >= 0.9 * 200_000 * at[-1]


@pytest.mark.parametrize("size", [20_000, 300_000], ids=["small", "larger than what is read at once"])
async def test_connections_of_an_entity_stand_in_line(clock: MockClock, size: int) -> None:
    of, at, count = clients(quotas(10 * size)), list[float](), 40
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(lambda: passed(of, produce_request(size), at=at))
    # What came at once, before anything was charged, has gone on: no more than is on its way to be accepted.
    assert at[-1] == pytest.approx(count / 10, abs=0.6)
    for began in (1, 2):
        assert sum(began <= each < began + 1 for each in at) <= 10 * 1.25 + 1
    assert of.entity("ANONYMOUS", "app", PRODUCER, at[-1]) is not None
    assert not of.muted


async def test_no_request_waits_longer_than_max_throttle(clock: MockClock) -> None:
    """Java's clients give a request up after 30 s, and send it again on another connection."""
    of, at = clients(quotas(10_000)), list[float]()
    async with trio.open_nursery() as nursery:
        for _ in range(40):
            nursery.start_soon(lambda: passed(of, produce_request(10_000), at=at))
    assert max(at) <= 15.5
    assert of.uncharged_bytes[Uncharged.MAX_THROTTLE] == pytest.approx(40 * 10_000 - 10_000 * 30, abs=40_000)


async def test_the_mute_of_its_connection_counts_as_a_wait(clock: MockClock) -> None:
    """Of a client that does not wait as it was told (kafka-python): its request waited for 15 s while the connection
    was muted and 15 s in line, and was given up."""
    of, waited = clients(quotas(10_000)), list[float]()

    async def produces_twice() -> None:
        async with relayed(clients=of) as wire:
            for _ in range(2):
                began = trio.current_time()
                await wire.follower.send_all(with_length(produce_request(10_000)))
                await read_frame(wire.leader)
                waited.append(trio.current_time() - began)
                await carried(produce_response(), wire.leader, wire.follower)

    async with trio.open_nursery() as nursery:
        for _ in range(60):
            nursery.start_soon(produces_twice)
    assert 14 < max(waited) < 15.5


async def test_the_wait_goes_on_in_another_process(clock: MockClock) -> None:
    states: list[ConnectionState] = []

    async def give(connection: Connection) -> Given:
        await trio.lowlevel.checkpoint()
        states.append(take(connection, trio.current_time()))
        return Given.TAKEN

    began = trio.current_time()
    of = clients(quotas(1000))
    async with relayed(clients=of) as busy:
        await produced(busy, 14_000)
        async with relayed(clients=of) as wire:
            await wire.follower.send_all(with_length(produce_request(100)))
            await trio.sleep(10)
            assert of.muted
            wire.draining.give = give
            wire.draining.begun.set()
            await wire.finished.wait()
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(states[0]), type=ConnectionState)
    other = clients(quotas(1000))
    other.take_debts([ClientDebt("producer", None, "app", 14.0)], trio.current_time())  # of others, too
    async with relayed(clients=other, restore=partial(restore, state=state, now=trio.current_time())) as wire:
        await read_frame(wire.leader)
        assert trio.current_time() - began == pytest.approx(15, abs=0.3)


def test_who_comes_when_the_debt_is_just_paid_comes_after_those_in_line() -> None:
    """Before the first of them has had its turn."""
    of = clients(quotas(1000))
    debtor, first, newcomer = (ClientConnection(of) for _ in range(3))
    entity = debtor.entity("app", PRODUCER, 0.0)
    assert entity is not None
    debtor.charge(entity, 1250, 0.0)
    assert first.waits(entity, 0.5)
    assert newcomer.waits(entity, 1.0)
    assert not first.waits(entity, 1.0)
    assert not newcomer.waits(entity, 1.0)


@pytest.mark.parametrize("count", [64, 5000])
def test_many_produces_on_their_way_are_charged_now_and_then(count: int) -> None:
    """5000 connections of one client id, each with half a Produce, cost 2.7 ms of the loop for each of its requests."""
    looks = 0

    class Half(Relayed):
        def __getattribute__(self, name: str) -> object:
            nonlocal looks
            looks += name == "request_bytes"
            return super().__getattribute__(name)

    of = clients(quotas(MB))
    entity = of.entity("ANONYMOUS", "app", PRODUCER, 0.0)
    assert entity is not None
    for _ in range(count):
        Sending(entity, Half(), 1000, of.count)
    looks = 0
    for ms in range(1000):
        entity.throttle_seconds(ms / 1000)
    assert looks == (1000 * count if count <= 64 else 10 * count), "every 20 us for each of them"


async def test_who_leaves_the_line_holds_up_nobody(clock: MockClock) -> None:
    of = clients(quotas(100_000))
    async with AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(relayed(clients=of)) for _ in range(4)]
        await produced(wires[0], 125_000)
        for wire in wires[1:]:
            await wire.follower.send_all(with_length(produce_request(50_000)))
            await trio.sleep(0.05)
        await wires[1].leader.aclose()
        await wires[1].finished.wait()
        await read_frame(wires[2].leader)
        assert trio.current_time() == pytest.approx(1.0, abs=0.1)
        await read_frame(wires[3].leader)
        assert trio.current_time() == pytest.approx(1.5, abs=0.1)


async def test_what_is_not_charged_passes_on_other_connections(clock: MockClock) -> None:
    """No group rebalances because one of its members has used its quota up."""
    of = clients(quotas(100_000))
    async with relayed(clients=of) as producer, relayed(clients=of) as group:
        await produced(producer, 500_000)
        began = trio.current_time()
        for _ in range(3):
            assert await carried(HEARTBEAT, group.follower, group.leader) == HEARTBEAT
        assert trio.current_time() - began < 0.2


async def test_a_share_group_in_debt_waits(clock: MockClock) -> None:
    of = clients()
    async with relayed(clients=of) as first, relayed(clients=of) as second:
        await carried(share_fetch_request(), first.follower, first.leader)
        await carried((5).to_bytes(4) + bytes(2 * MB), first.leader, first.follower)
        began = trio.current_time()
        await carried(share_fetch_request(), second.follower, second.leader)
        assert trio.current_time() - began == pytest.approx(1.75, abs=0.1)


@pytest.mark.parametrize("end", [Quotas(), quotas(100 * MB), quotas(1000, enforce=False)], ids=["gone", "up", "mode"])
async def test_those_that_wait_go_on_when_the_quota_ends(clock: MockClock, end: Quotas) -> None:
    """`set producer_byte_rate 5` without a unit: a producer had sent nothing 28 s after the quota had ended."""
    of, changes = clients(quotas(5)), Changes()
    async with relayed(clients=of, changes=changes) as wire, relayed(clients=of, changes=changes) as other:
        _, ms = await produced(wire, 60)
        assert 1000 < ms <= 15_000
        await other.follower.send_all(with_length(produce_request(1000)))
        await trio.sleep(1)
        of.apply(end, trio.current_time())
        changes.notify()
        ended = trio.current_time()
        await read_frame(other.leader)
        seen, _ = await produced(wire, 100)
        assert seen - ended < 0.25


async def test_what_a_broker_refuses_is_given_back(clock: MockClock) -> None:
    of = clients(quotas(100_000))
    async with relayed(clients=of) as stranger, relayed(clients=of) as honest:
        for _ in range(5):
            await carried(produce_request(500_000), stranger.follower, stranger.leader)
            await stranger.leader.send_all(with_length(produce_response(error_codes=(29,))))
            assert told_ms(await read_frame(stranger.follower)) == 0
        seen = trio.current_time()
        assert (await produced(honest, 20_000))[0] - seen < 0.1
    assert of.uncharged_bytes[Uncharged.REFUSED] == 5 * 500_000


async def test_many_unanswered_produces_are_charged_all_the_same(clock: MockClock) -> None:
    of = clients(quotas(100_000))
    async with relayed(clients=of) as wire:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.follower.send_all, with_length(produce_request(50_000)) * 10)
            for _ in range(10):
                await read_frame(wire.leader)
        assert trio.current_time() == pytest.approx(4.5 - 0.25, abs=0.3)


async def test_a_debt_that_others_made_is_nobodys(clock: MockClock) -> None:
    """2600 made-up client ids at a default quota: a known and a new tenant were told 2.4 hours."""
    of = clients(quotas(10_000))
    async with relayed(clients=of) as known:
        await produced(known, 100)
        for number in range(MAX_ENTITIES + 600):
            entity = of.entity("ANONYMOUS", f"id-{number}", PRODUCER, trio.current_time())
            assert entity is not None
            of.count(entity, 150_000, trio.current_time())
        assert (await produced(known, 100))[1] == 0
        async with relayed(clients=of) as new:
            request = produce_request(1000, client_id="new")
            assert await carried(request, new.follower, new.leader) == request
            assert told_ms(await carried(produce_response(), new.leader, new.follower)) <= 1000
        assert trio.current_time() < 1


async def test_no_mute_is_longer_than_max_throttle_but_for_one_large_request(clock: MockClock) -> None:
    of = clients(quotas(10_000))
    async with relayed(clients=of) as wire:
        assert (await produced(wire, 400_000))[1] == pytest.approx(39_750, abs=50)
    of = clients(quotas(10_000))
    wires: list[Wire] = []
    async with AsyncExitStack() as stack:
        wires += [await stack.enter_async_context(relayed(clients=of)) for _ in range(30)]
        for wire in wires:  # all are under way before any is charged
            await wire.follower.send_all(with_length(produce_request(10_000)))
        await read_frame(wires[0].leader)
        entity = of.entity("ANONYMOUS", "app", PRODUCER, trio.current_time())
        assert entity is not None
        assert entity.throttle_seconds(trio.current_time()) <= 15
