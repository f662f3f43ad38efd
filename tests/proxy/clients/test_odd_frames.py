"""Frames in every odd form are charged to the client's quota: nothing about a frame's form decides whether it holds."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import pytest
import trio

from protocol.fetch.request import parse_fetch_request
from protocol.wire.framing import with_length, write_uvarint
from proxy.quotas.client_entity import ClientEntity
from proxy.quotas.client_rates import ClientRates, TrafficRates
from proxy.quotas.keys import ClientTraffic
from proxy.quotas.rules import Quotas
from proxy.relay.in_flight import Buffers
from proxy.relay.reaper import Reaper
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics
from proxy.throttle.role_throttle import RoleThrottle
from tests.proxy.clients.frames import (
    CORRELATION_ID,
    fetch_request,
    fetch_response,
    parsed_fetch,
    produce_request,
    share_fetch_request,
)
from tests.proxy.clients.rates import traffic_rates
from tests.proxy.clients.test_frames import MB, carried, clients
from tests.proxy.conversation import settings, throttle
from tests.proxy.recorded_log import RecordedLog

from ..relay.wire import T0, answer, entry, limits, patient_clock, read_frame, relayed

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.testing import MockClock


PRODUCER, CONSUMER = ClientTraffic
BAD_ID = b"bad\xff\xfe"
BIG_TAG = b"\x01\x00" + write_uvarint(140_000) + bytes(140_000)
TAGS = 14
"""Where the tagged fields of a header begin whose client id is "app", behind the length prefix: api key, version,
correlation id, the client id and its length are before them."""


@pytest.fixture
def clock() -> MockClock:
    return patient_clock()


def idle() -> RoleThrottle:
    return RoleThrottle(Role.LEADER, settings(), quotas=Quotas(), statistics=RoleStatistics(), now=0.0)


def with_client_id(frame: bytes, client_id: bytes) -> bytes:
    return frame[:8] + len(client_id).to_bytes(2) + client_id + frame[13:]


def with_header_tags(frame: bytes, tags: bytes) -> bytes:
    """A flexible request with these tagged fields in its header in place of none."""
    return frame[: TAGS - 1] + tags + frame[TAGS:]


PRODUCES = {
    "client id not UTF-8": with_client_id(produce_request(MB), BAD_ID),
    "client id not UTF-8, flexible": with_client_id(produce_request(MB, version=9), BAD_ID),
    "a large tag in the header": with_header_tags(produce_request(MB, version=9), BIG_TAG),
    "too many tags in the header": with_header_tags(produce_request(MB, version=9), b"\x41" + b"\0\0" * 65),
    "a later version": struct.pack(">hh", 0, 14) + produce_request(MB, version=13)[4:],
    "a transactional id of a length below null": produce_request(MB)[:13] + b"\xff\xf0" + produce_request(MB)[15:],
}


@pytest.mark.parametrize("name", PRODUCES)
@pytest.mark.parametrize("of", [idle, throttle])
async def test_a_produce_is_charged_whatever_its_form(
    clock: MockClock, name: str, of: Callable[[], RoleThrottle]
) -> None:
    """Brokers decode a client id with replacement characters, and hold it to its quota."""
    asked, by = PRODUCES[name], clients()
    async with relayed(of(), clients=by) as wire:
        assert await carried(asked, wire.follower, wire.leader) == asked
        began = trio.current_time()
        assert await carried(produce_request(1000), wire.follower, wire.leader) == produce_request(1000)
        assert trio.current_time() - began == pytest.approx((len(asked) - 0.25 * MB) / MB, abs=0.1)
        counted = wire.throttle.statistics.undecoded
        assert sum(counted.values()) == (0 if "UTF-8" in name or "version" in name else 1), counted
    label = "bad\ufffd\ufffd" if "UTF-8" in name else "app"
    assert by.passed_bytes[label, PRODUCER] == len(asked) + (1000 if label == "app" else 0)


FETCHES = {
    "client id not UTF-8": with_client_id(fetch_request(), BAD_ID),
    "a large tag in the header": with_header_tags(fetch_request(version=12), BIG_TAG),
    "too many tags in the header": with_header_tags(fetch_request(version=12), b"\x41" + b"\0\0" * 65),
    "a later version": struct.pack(">hh", 1, 30) + fetch_request(version=18)[4:],
    "more than is held": fetch_request(version=17) + bytes(2**20),
    "bytes after its end": fetch_request(version=17) + b"more",
    "a ShareFetch of a later version": struct.pack(">hh", 78, 9) + share_fetch_request()[4:],
    "a ShareFetch with too many tags": with_header_tags(share_fetch_request(), b"\x41" + b"\0\0" * 65),
}


@pytest.mark.parametrize("name", FETCHES)
@pytest.mark.parametrize("of", [idle, throttle])
async def test_the_answer_to_a_fetch_is_charged_whatever_its_form(
    clock: MockClock, name: str, of: Callable[[], RoleThrottle]
) -> None:
    asked, by = FETCHES[name], clients()
    async with relayed(of(), clients=by, max_request_bytes=2**19) as wire:
        seen = await carried(asked, wire.follower, wire.leader)
        assert len(seen) == len(asked)
        told = fetch_response(MB)
        assert len(await carried(told, wire.leader, wire.follower)) == len(told)
        assert sum(by.passed_bytes.values()) == len(told)
        began = trio.current_time()
        await carried(share_fetch_request(), wire.follower, wire.leader)
        counted = wire.throttle.statistics.undecoded
        assert (trio.current_time() - began) == pytest.approx(0.75, abs=0.1)
        assert sum(counted.values()) == (0 if name in ("client id not UTF-8", "a ShareFetch of a later version") else 1)


async def test_an_exact_section_of_users_is_not_escaped_either(clock: MockClock) -> None:
    rates = TrafficRates({ClientEntity("ANONYMOUS", None): MB})
    by = clients(Quotas(clients=ClientRates(rates, rates)))
    async with relayed(clients=by) as wire:
        for asked in PRODUCES.values():
            await carried(asked, wire.follower, wire.leader)
    assert by.passed_bytes["users.ANONYMOUS", PRODUCER] == sum(map(len, PRODUCES.values()))


@pytest.mark.parametrize("knows", ["its Fetch", "its address"])
@pytest.mark.parametrize("name", [name for name in FETCHES if "Share" not in name and "UTF-8" not in name])
async def test_a_broker_is_never_held_up_for_what_is_not_understood(clock: MockClock, name: str, knows: str) -> None:
    """An upgrade of Kafka must not make replicas fall out of the ISR."""
    by = clients()
    if knows == "its address":
        by.broker_addresses = frozenset({"102"})  # the peer's name, as the wire gives it
    async with relayed(throttle(), clients=by, max_request_bytes=2**19) as wire:
        if knows == "its Fetch":
            request, _ = await wire.in_flight({T0: 5}, answer([entry(0, high_watermark=5)]))
            assert parse_fetch_request(request).replica_id == 102
        for _ in range(2):
            assert await carried(FETCHES[name], wire.follower, wire.leader) == FETCHES[name]
            await carried(fetch_response(3 * MB), wire.leader, wire.follower)
        assert trio.current_time() < 1
    assert not by.passed_bytes
    assert by.states(1.0) == []


async def test_a_follower_is_no_client(clock: MockClock) -> None:
    """It was listed among them, with a rate of 0."""
    by = clients()
    async with relayed(throttle(10_000 * MB), clients=by) as wire:
        for version in (11, 17):
            await carried(fetch_request(version=version, replica_id=102), wire.follower, wire.leader)
            await carried(fetch_response(1000, version=version), wire.leader, wire.follower)
        assert by.states(0.0) == []
        await carried(fetch_request(version=17), wire.follower, wire.leader)
        told = await carried(fetch_response(1000, version=17), wire.leader, wire.follower)
        assert parsed_fetch(told, version=17).throttle_time_ms == 0
        assert [state.name for state in by.states(0.0)] == ["app"]


@pytest.mark.parametrize("version", [3, 6, 11, 12, 13, 17])
async def test_who_says_that_it_is_a_follower_is_one_once_the_broker_accepts_it(clock: MockClock, version: int) -> None:
    """Anybody may write a replica's id; a broker answers with an error of each partition."""
    by, reaper = clients(), Reaper(limits(), Buffers(), [], RecordedLog())
    async with relayed(idle(), clients=by, reaper=reaper) as wire, trio.open_nursery() as nursery:
        nursery.start_soon(reaper.run)
        (frames,) = by._connections
        for error_code, is_accepted in ((29, False), (31, False), (42, False), (0, True)):
            await carried(fetch_request(version=version, replica_id=102), wire.follower, wire.leader)
            told = bytearray(fetch_response(100, version=version))
            at = told.index((10**6).to_bytes(8)) - 2  # the error code is before the high watermark
            told[at : at + 2] = error_code.to_bytes(2)
            assert await carried(bytes(told), wire.leader, wire.follower) == told
            assert frames.is_of_broker is is_accepted
            await trio.sleep(2)
            assert reaper.of_brokers == is_accepted
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("correlation_id", [CORRELATION_ID, CORRELATION_ID + 1], ids=["its own id", "the same id"])
@pytest.mark.parametrize("producers", [MB, math.inf], ids=["with a quota", "without one"])
@pytest.mark.parametrize("of", [idle, throttle])
async def test_acks_that_cannot_be_read_free_no_answer_to_a_fetch(
    clock: MockClock, of: Callable[[], RoleThrottle], producers: float, correlation_id: int
) -> None:
    """A broker reads acks=0 behind any header, and answers nothing. The answer to the Fetch behind it was taken for
    another one: 1 MiB for nothing with each pair of requests, as often as one likes."""
    rates = (traffic_rates({"clients.default": rate}) for rate in (producers, MB))
    by = clients(Quotas(clients=ClientRates(*rates)))
    async with relayed(of(), clients=by) as wire:
        asked = with_header_tags(produce_request(1000, version=9, acks=0), b"\x41" + b"\0\0" * 65)
        await carried(fetch_request(correlation_id=3), wire.follower, wire.leader)
        await wire.follower.send_all(with_length(asked) + with_length(fetch_request(correlation_id=correlation_id)))
        assert await read_frame(wire.leader) == asked
        await carried(fetch_response(1000, correlation_id=3), wire.leader, wire.follower)
        with trio.move_on_after(5) as waits:
            await read_frame(wire.leader)
        assert waits.cancelled_caught, "it waits for an answer to each request"
        assert 1000 < by.passed_bytes["app", CONSUMER] < 1100


@pytest.mark.parametrize("rate", [MB, math.inf], ids=["with a quota", "without one"])
async def test_of_a_long_client_id_its_beginning_is_remembered(clock: MockClock, rate: float) -> None:
    """32 KiB, and 128 as text: of 9000 connections more than a process may have in all."""
    rates = traffic_rates({"clients.default": rate, "clients.some": MB})
    by = clients(Quotas(clients=ClientRates(rates, rates)))
    async with relayed(clients=by) as wire:
        (frames,) = by._connections
        for end in "ab":
            asked = produce_request(40_000, client_id="\U0001f600" * 8000 + end)
            assert await carried(asked, wire.follower, wire.leader) == asked
        remembered = [frames.client._client_id, *(frames._exempt or [])]
        assert max(len(each) for each in remembered if isinstance(each, str | bytes)) <= 4 * 249
    assert dict(by.passed_bytes) == ({} if math.isinf(rate) else {("\U0001f600" * 249, PRODUCER): 80_000})
