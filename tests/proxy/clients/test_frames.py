"""Client quotas on relayed connections: what the broker sees and when, and what the client is told (KIP-219)."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from protocol.fetch.request import parse_fetch_request
from protocol.wire.framing import with_length
from proxy.changes import Changes
from proxy.clients.throttle import ClientThrottle
from proxy.config.settings import Policy
from proxy.handover.connection_state import restore, take
from proxy.handover.messages import ConnectionState
from proxy.quotas.client_rates import ClientRates
from proxy.quotas.keys import ClientTraffic
from proxy.quotas.rules import Quotas
from proxy.relay.connection import Given
from proxy.relay.in_flight import Buffers
from proxy.relay.reaper import Reaper
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics
from proxy.throttle.role_throttle import RoleThrottle
from tests.proxy.clients.frames import (
    fetch_request,
    fetch_response,
    parsed_fetch,
    produce_request,
    produce_response,
    share_fetch_request,
    share_fetch_response,
    told_ms,
)
from tests.proxy.clients.rates import traffic_rates
from tests.proxy.conversation import settings, throttle
from tests.proxy.recorded_log import RecordedLog

from ..relay.wire import Wire, limits, patient_clock, read_all, read_frame, relayed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

    from proxy.relay.connection import Connection

MB = 1_000_000
PRODUCER, CONSUMER = ClientTraffic
OTHER = traffic_rates({"clients.other": 1.0})


@pytest.fixture
def clock() -> MockClock:
    return patient_clock()


def quotas(rate: float = MB, *, enforce: bool = True, **named: float) -> Quotas:
    """Every client has a quota of `rate` of each kind, those named one of their own."""
    rates = traffic_rates({"clients.default": rate, **{f"clients.{name}": each for name, each in named.items()}})
    return Quotas(clients=ClientRates(rates, rates), enforce=enforce)


def clients(of: Quotas | None = None, policy: Policy = Policy.STRICT) -> ClientThrottle:
    return ClientThrottle(settings(policy), quotas() if of is None else of, 0.0, RoleStatistics())


@asynccontextmanager
async def both(one: ClientThrottle) -> AsyncIterator[tuple[Wire, Wire]]:
    """Two connections of the same listener."""
    async with relayed(clients=one) as first, relayed(clients=one) as second:
        yield first, second


async def carried(frame: bytes, source: trio.SocketStream, sink: trio.SocketStream) -> bytes:
    """The next frame at `sink` after `frame` was sent from `source`."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.send_all, with_length(frame))
        return await read_frame(sink)


async def produced(wire: Wire, size: int, *, version: int = 8, answer_ms: int = 0) -> tuple[float, int]:
    """One Produce and its answer: when the broker saw it, and the throttle time that the client is told."""
    request = produce_request(size, version=version)
    assert await carried(request, wire.follower, wire.leader) == request
    seen = trio.current_time()
    answer = produce_response(version=version, throttle_time_ms=answer_ms)
    told = await carried(answer, wire.leader, wire.follower)
    ms = told_ms(told, version=version)
    assert told == produce_response(version=version, throttle_time_ms=ms)  # and nothing else changed
    return seen, ms


async def fetched(
    wire: Wire, record_bytes: int, *, version: int = 11, session: tuple[int, int] = (0, -1), lists: bool = True
) -> tuple[float, bytes, bytes]:
    """One Fetch that reaches the broker: when, what it saw, and what the client got."""
    asked = fetch_request(version=version, session=session, lists=lists)
    request = await carried(asked, wire.follower, wire.leader)
    seen = trio.current_time()
    answer = fetch_response(record_bytes, version=version, session_id=session[0])
    return seen, request, await carried(answer, wire.leader, wire.follower)


@pytest.mark.parametrize("by_trio", [False, True])
@pytest.mark.parametrize("version", [1, 3, 8, 9, 12, 13])
async def test_a_producer_over_quota_is_told_at_once_and_read_no_more(
    clock: MockClock, version: int, by_trio: bool
) -> None:
    async with relayed(clients=clients(), by_trio=by_trio) as wire:
        began, ms = await produced(wire, MB, version=version)
        assert trio.current_time() - began < 0.1
        # 1 MB at 1 MB/s, of which the burst of 250 ms was there: 0.75 s.
        assert ms == pytest.approx(750, abs=50)
        seen, _ = await produced(wire, 1000, version=version)
        assert seen - began == pytest.approx(0.75, abs=0.05)


async def test_a_producer_within_its_quota_is_told_nothing(clock: MockClock) -> None:
    async with relayed(clients=clients()) as wire:
        for _ in range(3):
            assert (await produced(wire, 50_000))[1] == 0


async def test_a_longer_throttle_time_of_the_broker_stays(clock: MockClock) -> None:
    async with relayed(clients=clients()) as wire:
        assert (await produced(wire, MB, answer_ms=5000))[1] == 5000


async def test_without_acks_the_connection_is_muted_all_the_same(clock: MockClock) -> None:
    async with relayed(clients=clients()) as wire:
        requests = [produce_request(MB, acks=0), produce_request(1000, correlation_id=6)]
        assert await carried(requests[0], wire.follower, wire.leader) == requests[0]
        began = trio.current_time()
        assert await carried(requests[1], wire.follower, wire.leader) == requests[1]
        assert trio.current_time() - began == pytest.approx(0.75, abs=0.05)


async def test_answers_in_flight_go_on_to_a_muted_client(clock: MockClock) -> None:
    async with relayed(clients=clients()) as wire:
        small, large = produce_request(1000, correlation_id=1), produce_request(MB, correlation_id=2)
        for request in (small, large):
            assert await carried(request, wire.follower, wire.leader) == request
        began = trio.current_time()
        for correlation_id in (1, 2):
            await wire.leader.send_all(with_length(produce_response(correlation_id=correlation_id)))
            assert told_ms(await read_frame(wire.follower)) == pytest.approx(750, abs=50)
        assert trio.current_time() - began < 0.1


@pytest.mark.parametrize("version", [1, 3, 4, 7, 11, 12, 15, 18])
async def test_a_consumer_over_quota(clock: MockClock, version: int) -> None:
    async with relayed(clients=clients()) as wire:
        began, request, answer = await fetched(wire, 900_000, version=version)
        body = parsed_fetch(answer, version=version)
        size = len(fetch_response(900_000, version=version))
        assert body.throttle_time_ms == pytest.approx((size - 250_000) / 1000, abs=50)
        assert answer == fetch_response(900_000, version=version, throttle_time_ms=body.throttle_time_ms)
        # As a broker does, it asks for no more than the quota lets through: here a second, and 1 MiB at least.
        assert parse_fetch_request(request).max_bytes == (2**20 if version >= 3 else 2**31 - 1)
        seen, _, answer = await fetched(wire, 1000, version=version)
        assert seen - began == pytest.approx(0.65, abs=0.05)
        assert parsed_fetch(answer, version=version).throttle_time_ms <= 5  # what these 1000 bytes cost


@pytest.mark.parametrize(("session", "answered_with"), [((0, -1), 0), ((0, 0), 0)])
@pytest.mark.parametrize("version", [7, 11, 12, 17])
async def test_a_full_fetch_over_quota_is_answered_here(
    clock: MockClock, version: int, session: tuple[int, int], answered_with: int
) -> None:
    async with both(clients()) as (busy, other):
        await fetched(busy, MB)
        await other.follower.send_all(with_length(fetch_request(version=version, session=session)))
        began = trio.current_time()
        body = parsed_fetch(await read_frame(other.follower), version=version)
        assert trio.current_time() - began < 0.1
        assert (body.error_code, body.session_id, len(body.responses)) == (0, answered_with, 0)
        assert body.throttle_time_ms == pytest.approx(750, abs=60)
        seen, _, _ = await fetched(other, 1000, version=version)
        assert seen - began == pytest.approx(0.75, abs=0.06)


async def test_the_throttle_time_of_an_answer_from_here_is_that_of_a_full_one(clock: MockClock) -> None:
    async with both(clients()) as (busy, other):
        await fetched(other, 200_000)
        await fetched(busy, MB)
        await other.follower.send_all(with_length(fetch_request()))
        body = parsed_fetch(await read_frame(other.follower))
        # 1.2 MB were charged of which 0.25 MB were there; the last answer had 0.2 MB, which are not charged.
        assert body.throttle_time_ms == pytest.approx(950 + 200, abs=100)
        seen, _, _ = await fetched(busy, 1000)
        assert seen == pytest.approx(0.95, abs=0.15)


async def test_a_session_goes_on_over_answers_from_here(clock: MockClock) -> None:
    async with both(clients()) as (busy, other):
        await fetched(other, 1000, session=(77, 1))
        for epoch, of_broker in ((2, 2), (4, 3)):
            await fetched(busy, MB)
            await other.follower.send_all(with_length(fetch_request(session=(77, epoch), lists=False)))
            body = parsed_fetch(await read_frame(other.follower))
            assert (body.session_id, body.error_code, len(body.responses)) == (77, 0, 0)
            assert body.throttle_time_ms > 0
            await trio.sleep(2)
            # The next one has its turn, although the other connection was first again.
            await fetched(busy, MB)
            _, request, _ = await fetched(other, 1000, session=(77, epoch + 1), lists=False)
            assert parse_fetch_request(request).session_epoch == of_broker
            await trio.sleep(2)
        # Two epochs of the client's the broker has never seen.
        _, request, _ = await fetched(other, 1000, session=(77, 6))
        assert parse_fetch_request(request).session_epoch == 4
        _, request, _ = await fetched(other, 1000, session=(77, 7), lists=False)
        assert parse_fetch_request(request).session_epoch == 5
        # Another session has epochs of its own.
        _, request, _ = await fetched(other, 1000, session=(78, 1))
        assert parse_fetch_request(request).session_epoch == 1


@pytest.mark.parametrize("session", [(77, 2), (77, 0), (77, -1)])
async def test_a_request_that_changes_a_session_waits_until_the_debt_is_paid(
    clock: MockClock, session: tuple[int, int]
) -> None:
    async with both(clients()) as (busy, other):
        await fetched(busy, MB)
        seen, request, _ = await fetched(other, 1000, session=session)
        assert seen == pytest.approx(0.75, abs=0.05)
        assert parse_fetch_request(request).session_epoch == session[1]


@pytest.mark.parametrize("version", [3, 11, 14, 15, 18])
async def test_replicas_are_never_clients(clock: MockClock, version: int) -> None:
    of = clients(quotas(1.0))
    async with relayed(throttle(10_000 * MB, role=Role.LEADER), clients=of) as wire:
        request = fetch_request(version=version, replica_id=102)
        await wire.follower.send_all(with_length(request))
        seen = await read_frame(wire.leader)
        assert parse_fetch_request(seen).replica_id == 102
        answer = await carried(fetch_response(MB, version=version), wire.leader, wire.follower)
        assert parsed_fetch(answer, version=version).throttle_time_ms == 0
    assert not of.passed_bytes


async def test_a_client_without_a_quota_passes_as_it_is(clock: MockClock) -> None:
    of = clients(Quotas(clients=ClientRates(OTHER, OTHER)))
    async with relayed(clients=of) as wire:
        for _ in range(3):
            assert (await produced(wire, MB))[1] == 0
            _, request, answer = await fetched(wire, MB)
            assert request == fetch_request()
            assert answer == fetch_response(MB)
        assert trio.current_time() < 1
    assert not of.passed_bytes


async def test_the_follower_role_has_no_clients(clock: MockClock) -> None:
    async with relayed(throttle(role=Role.FOLLOWER), clients=clients()) as wire:
        assert (await produced(wire, 5 * MB))[1] == 0


async def test_observed_only(clock: MockClock) -> None:
    of = clients(quotas(enforce=False))
    async with relayed(clients=of) as wire:
        for _ in range(3):
            assert (await produced(wire, MB))[1] == 0
            assert (await fetched(wire, MB))[1] == fetch_request()
    assert of.passed_bytes["app", PRODUCER] == 3 * MB
    assert not of.throttle_seconds


@pytest.mark.parametrize("lifted", [quotas(100 * MB), Quotas(), quotas(enforce=False)], ids=["raised", "gone", "mode"])
async def test_a_mute_ends_with_its_quota(clock: MockClock, lifted: Quotas) -> None:
    of, changes = clients(quotas(MB)), Changes()
    async with relayed(clients=of, changes=changes) as wire:
        _, ms = await produced(wire, 10 * MB)
        assert ms > 9000
        of.apply(lifted, trio.current_time())
        changes.notify()
        seen, _ = await produced(wire, 1000)
        assert seen < 0.35


async def test_quotas_that_come_are_for_connections_that_are_there(clock: MockClock) -> None:
    of = clients(Quotas())
    async with relayed(clients=of) as wire:
        assert (await produced(wire, MB))[1] == 0
        of.apply(quotas(), trio.current_time())
        assert (await produced(wire, MB))[1] == pytest.approx(750, abs=50)


@pytest.mark.parametrize("piece", [None, 9], ids=["whole", "half a frame"])
async def test_a_muted_connection_does_not_stall(clock: MockClock, piece: int | None) -> None:
    of = throttle()
    reaper = Reaper(limits(frame_timeout_seconds=5), Buffers(), [of], RecordedLog())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reaper.run)
        async with relayed(of, clients=clients(), reaper=reaper) as wire:
            await produced(wire, 12 * MB)
            frame = with_length(produce_request(1000))
            await wire.follower.send_all(frame[:piece])
            await trio.sleep(11)
            await wire.follower.send_all(frame[len(frame) if piece is None else piece :])
            assert await read_frame(wire.leader) == produce_request(1000)
            assert trio.current_time() == pytest.approx(11.75, abs=0.1)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("leaves", "cause"), [("fin", "follower_closed"), ("rst", "follower_closed"), ("stays", "idle")]
)
async def test_a_muted_connection_is_let_go_as_others_are(clock: MockClock, leaves: str, cause: str) -> None:
    """Its sockets and its place were kept until the mute was over, which may be long, whoever had left."""
    of = throttle()
    reaper = Reaper(limits(frame_timeout_seconds=5, idle_timeout_seconds=9), Buffers(), [of], RecordedLog())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reaper.run)
        async with relayed(of, clients=clients(), reaper=reaper) as wire:
            await produced(wire, 40 * MB)
            await wire.follower.send_all(with_length(produce_request(1000)))
            if leaves == "fin":
                await wire.follower.send_eof()
            elif leaves == "rst":
                await wire.follower.aclose()
            await wire.finished.wait()
            assert trio.current_time() <= 11
            assert wire.ending["cause"] == cause
        nursery.cancel_scope.cancel()


async def test_a_drain_does_not_wait_for_a_mute(clock: MockClock) -> None:
    async with relayed(clients=clients()) as wire:
        await produced(wire, 21 * MB)
        wire.draining.begun.set()
        await wire.finished.wait()
        assert trio.current_time() < 1
        assert wire.ending["cause"] == "drained"


async def test_a_client_that_leaves_while_muted(clock: MockClock) -> None:
    async with relayed(clients=clients()) as wire:
        await produced(wire, MB)
        await wire.follower.send_all(with_length(produce_request(1000)))
        await wire.follower.send_eof()
        assert await read_all(wire.leader) == with_length(produce_request(1000))
        assert trio.current_time() == pytest.approx(0.75, abs=0.05)


async def test_an_answer_that_cannot_be_read_passes_and_is_counted(clock: MockClock) -> None:
    async with relayed(clients=clients()) as wire:
        await carried(produce_request(MB), wire.follower, wire.leader)
        answer = produce_response() + b"more"
        await wire.leader.send_all(with_length(answer))
        assert await read_frame(wire.follower) == answer
        assert wire.throttle.statistics.undecoded == {"malformed_response": 1}


@pytest.mark.parametrize(
    ("version", "is_idle", "most", "bounded"),
    [
        (11, True, 2**17, True),
        (17, False, 2**20, True),
        (17, True, 2**20, True),
        (17, True, 2**17, False),
        (17, False, 2**17, False),
    ],
)
async def test_a_fetch_that_is_larger_than_the_window(
    clock: MockClock, version: int, is_idle: bool, most: int, bounded: bool
) -> None:
    """From v15 on it is held until all of it has come, if it may be. Its answer is charged in any case."""
    idle = RoleThrottle(Role.LEADER, settings(), quotas=Quotas(), statistics=RoleStatistics(), now=0.0)
    async with relayed(idle if is_idle else throttle(), clients=clients(), max_request_bytes=most) as wire:
        asked = fetch_request(version=version, partitions=6000)
        assert len(asked) > 128 * 1024
        request = await carried(asked, wire.follower, wire.leader)
        assert (request != asked) is bounded
        answer = await carried(fetch_response(MB, version=version), wire.leader, wire.follower)
        assert parsed_fetch(answer, version=version).throttle_time_ms == pytest.approx(750, abs=50)
        assert wire.throttle.statistics.undecoded == ({} if bounded else {"request_too_large": 1})


async def test_a_fetch_that_cannot_be_read_passes_and_is_counted(clock: MockClock) -> None:
    """A broker does not look at what follows the last field."""
    idle = RoleThrottle(Role.LEADER, settings(), quotas=Quotas(), statistics=RoleStatistics(), now=0.0)
    async with relayed(idle, clients=clients()) as wire:
        asked = fetch_request(version=17) + b"more"
        assert await carried(asked, wire.follower, wire.leader) == asked
        assert wire.throttle.statistics.undecoded == {"malformed_request": 1}


async def test_an_answer_that_ends_early_ends_the_connection_and_nothing_else(clock: MockClock) -> None:
    async with relayed(clients=clients()) as wire:
        await carried(produce_request(MB), wire.follower, wire.leader)
        await wire.leader.send_all(with_length(produce_response())[:-5])
        await wire.leader.send_eof()
        await wire.finished.wait()
        assert wire.ending["cause"] == "leader_closed"


async def test_a_large_answer_is_told_its_throttle_time_and_streams(clock: MockClock) -> None:
    async with relayed(clients=clients(quotas(100 * MB))) as wire:
        for _ in range(3):
            _, _, answer = await fetched(wire, 30 * MB)
            ms = parsed_fetch(answer).throttle_time_ms
            assert answer == fetch_response(30 * MB, throttle_time_ms=ms)
        assert ms > 0


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_share_group_is_charged_as_consumers_are(clock: MockClock, version: int) -> None:
    """As a broker charges its members; nothing is answered here, as a ShareFetch acknowledges records."""
    of = clients()
    async with both(of) as (busy, other):
        asked = with_length(share_fetch_request(version=version))
        await busy.follower.send_all(asked[:40])
        await trio.sleep(0.1)
        await busy.follower.send_all(asked[40:])
        assert await read_frame(busy.leader) == share_fetch_request(version=version, max_bytes=2**20)
        answer = await carried(share_fetch_response(MB, version=version), busy.leader, busy.follower)
        ms = int.from_bytes(answer[5:9])
        assert ms == pytest.approx(750, abs=50)
        assert answer == share_fetch_response(MB, version=version, throttle_time_ms=ms)
        began = trio.current_time()
        for wire in (other, busy):
            await carried(share_fetch_request(version=version), wire.follower, wire.leader)
            assert trio.current_time() - began == pytest.approx(0.75, abs=0.1)
    assert of.passed_bytes["app", CONSUMER] == len(answer)


async def test_both_policies_keep_the_rate(clock: MockClock) -> None:
    for policy in Policy:
        async with relayed(clients=clients(policy=policy)) as wire:
            began, sent, last = trio.current_time(), 0, 0.0
            while last - began < 30:
                last, _ = await produced(wire, MB)
                sent += MB
            burst = MB if policy is Policy.STRICT else 11 * MB
            assert sent <= (last - began) * MB + burst + MB
            assert sent >= (last - began) * MB * 0.95


async def test_other_requests_wait_on_a_muted_connection(clock: MockClock) -> None:
    heartbeat = (12).to_bytes(2) + (0).to_bytes(2) + (9).to_bytes(4) + b"\xff\xff" + bytes(10)
    async with relayed(clients=clients()) as wire:
        await produced(wire, MB)
        await wire.follower.send_all(with_length(heartbeat))
        assert await read_frame(wire.leader) == heartbeat
        assert trio.current_time() == pytest.approx(0.75, abs=0.05)


async def test_a_follower_and_a_client_of_one_name_space(clock: MockClock) -> None:
    """The default is for clients: a broker's fetcher has a client id, too."""
    of = clients(quotas(1000))
    async with relayed(throttle(), clients=of) as wire:
        await wire.ask({("t", 0): 0})
        assert parse_fetch_request(await wire.asked()).replica_id == 102
    assert not of.passed_bytes


async def test_a_mute_and_the_epochs_of_a_session_are_handed_over(clock: MockClock) -> None:
    states: list[ConnectionState] = []

    async def give(connection: Connection) -> Given:
        await trio.lowlevel.checkpoint()
        states.append(take(connection, trio.current_time()))
        return Given.TAKEN

    of = clients()
    async with both(of) as (busy, other):
        await fetched(other, 1000, session=(77, 1))
        await fetched(busy, MB)
        await other.follower.send_all(with_length(fetch_request(session=(77, 2), lists=False)))
        await read_frame(other.follower)
        other.draining.give = give
        other.draining.begun.set()
        await other.finished.wait()
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(states[0]), type=ConnectionState)
    began = trio.current_time()
    async with relayed(clients=clients(), restore=partial(restore, state=state, now=began)) as wire:
        seen, request, _ = await fetched(wire, 1000, session=(77, 3))
        assert seen - began == pytest.approx(0.75, abs=0.1)
        assert parse_fetch_request(request).session_epoch == 2
