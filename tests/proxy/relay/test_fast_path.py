"""Which whole frames pass at a glance: what the careful path would pass as well, and counts the same."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
import trio

from protocol.fetch.request import parse_fetch_request
from protocol.wire.correlation import State
from protocol.wire.framing import with_length
from protocol.work_in_steps import run_through
from proxy.changes import Changes
from proxy.relay.in_flight import InFlightRequests
from proxy.relay.requests import passable_requests
from proxy.relay.responses import passable_responses
from proxy.relay.transfer import Window
from proxy.throttle.decision import Forward
from proxy.throttle.link import Link
from tests.proxy.conversation import fetch_frame, throttle
from tests.proxy.recorded_log import RecordedLog

from .test_passing import CONSUMER, HANDSHAKE, PRODUCE, SHUTDOWN, TOKEN, UNKNOWN, fetch, golden, idle, told
from .wire import T0

if TYPE_CHECKING:
    from proxy.throttle.role_throttle import RoleThrottle

MANY = 1000
METADATA = with_length(struct.pack(">hhih", 3, 1, 7, 3) + b"abc" + struct.pack(">i", -1))


def window_of(data: bytes) -> Window:
    window = Window(64 * 1024)
    window.buffer[: len(data)] = data
    window.end = len(data)
    return window


def exchange_of(of: RoleThrottle, state: State = State.KAFKA) -> InFlightRequests:
    in_flight = InFlightRequests(Link(of, "102"), Changes(), RecordedLog())
    in_flight.correlator.state = state
    return in_flight


@pytest.mark.parametrize(
    ("data", "passable"),
    [
        (b"", 0),
        (METADATA, len(METADATA)),
        (METADATA * 3, 3 * len(METADATA)),
        (METADATA + METADATA[:-1], len(METADATA)),
        (METADATA[:13], 0),
        (METADATA + PRODUCE + METADATA, len(METADATA)),
        (HANDSHAKE, 0),
        (SHUTDOWN, 0),
        (TOKEN, 0),
        (UNKNOWN, 0),
        (b"\xff" * 40, 0),
        (b"\x16\x03\x01\x00\xfa" * 10, 0),
        (CONSUMER + fetch() + METADATA, len(CONSUMER + fetch() + METADATA)),
        (golden("fetch-v12") + METADATA, len(golden("fetch-v12") + METADATA)),
        (golden("fetch-v17") + METADATA, len(golden("fetch-v17") + METADATA)),
    ],
)  # fmt: skip
async def test_of_an_idle_throttle(data: bytes, passable: int) -> None:
    assert passable_requests(window_of(data), exchange_of(idle()), MANY) == passable


async def test_a_fetch_that_may_be_throttled_is_looked_at() -> None:
    data = METADATA + fetch() + METADATA
    assert passable_requests(window_of(data), exchange_of(throttle()), MANY) == len(METADATA)


@pytest.mark.parametrize("state", [State.START, State.TOKENS])
async def test_only_where_kafka_is_spoken(state: State) -> None:
    assert passable_requests(window_of(METADATA), exchange_of(idle(), state), MANY) == 0


@pytest.mark.parametrize(("client_id_bytes", "passes"), [(-1, 1), (-2, 0), (-32768, 0), (0, 1), (5, 0)])
async def test_a_client_id_fits_its_frame(client_id_bytes: int, passes: int) -> None:
    frame = with_length(struct.pack(">hhih", 3, 1, 7, client_id_bytes) + b"abcd")
    assert passable_requests(window_of(frame), exchange_of(idle()), MANY) == passes * len(frame)


async def test_replicas_are_counted_and_their_answers_matched() -> None:
    of = idle()
    in_flight = exchange_of(of)
    passable_requests(window_of(CONSUMER + fetch() + METADATA), in_flight, MANY)
    assert of.statistics.fetch_requests == {3: 1}
    assert (in_flight.replica_fetches, in_flight.frames) == (1, 3)
    answers = told(CONSUMER) + told(fetch()) + told(METADATA)
    assert passable_responses(window_of(answers), in_flight)[0] == len(answers)
    assert in_flight.owes_response  # until they are through
    in_flight.responded()
    assert not in_flight.owes_response


async def test_the_broker_with_the_lowest_id_is_a_replica_as_well() -> None:
    of = idle()
    in_flight = exchange_of(of)
    passable_requests(window_of(with_length(fetch_frame({T0: 5}, replica_id=0))), in_flight, MANY)
    assert (of.statistics.fetch_requests, in_flight.replica_fetches) == ({3: 1}, 1)


async def test_an_answer_out_of_order_or_torn_is_left() -> None:
    in_flight = exchange_of(idle())
    passable_requests(window_of(METADATA + fetch_with_id(8)), in_flight, MANY)
    assert passable_responses(window_of(told(fetch_with_id(8))), in_flight)[0] == 0
    assert passable_responses(window_of(told(METADATA)[:-1]), in_flight)[0] == 0
    assert passable_responses(window_of(with_length(b"\0\0\0")), in_flight)[0] == 0
    assert passable_responses(window_of(told(METADATA) + told(fetch_with_id(8))), in_flight)[0] > 0


async def test_an_answer_to_be_watched_is_left() -> None:
    in_flight = exchange_of(throttle())
    frame, now = fetch_frame({T0: 5}), trio.current_time()
    request = parse_fetch_request(frame)
    decision = run_through(in_flight.link.decide(run_through(in_flight.link.begin(frame, request, now)), now))
    assert isinstance(decision, Forward)
    in_flight.sent(request.head, expects_response=True, pending=decision.pending)
    assert passable_responses(window_of(told(with_length(frame))), in_flight)[0] == 0


def fetch_with_id(correlation_id: int) -> bytes:
    frame = bytearray(fetch())
    struct.pack_into(">i", frame, 8, correlation_id)
    return bytes(frame)
