"""Client quotas and frames that are damaged, or come in part: nothing but a step, or a ProtocolError, comes of them."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.wire.framing import with_length
from proxy.changes import Changes
from proxy.clients.frames import ClientFrames
from proxy.clients.throttle import ClientThrottle
from proxy.quotas.client_rates import ClientRates
from proxy.quotas.rules import Quotas
from proxy.relay.in_flight import InFlightRequests
from proxy.relay.transfer import Need, Window
from proxy.relay.transport import HELD
from proxy.statistics.counters import RoleStatistics
from proxy.throttle.decision import Answer
from proxy.throttle.link import Link
from tests.proxy.clients.frames import fetch_request, fetch_response, produce_request, produce_response
from tests.proxy.clients.rates import traffic_rates
from tests.proxy.clients.sasl_frames import (
    SERVER_FINAL,
    authenticate,
    authenticate_response,
    client_first,
    handshake,
    plain,
)
from tests.proxy.conversation import settings, throttle
from tests.proxy.recorded_log import RecordedLog

RATES = traffic_rates({"clients.default": 1000.0, "users.alice": 1000.0})
QUOTAS = Quotas(clients=ClientRates(RATES, RATES))
KINDS = st.sampled_from(
    [
        produce_request(400, version=8),
        produce_request(400, version=9),
        fetch_request(version=11, session=(7, 2)),
        fetch_request(version=17, session=(7, 2), lists=False),
        fetch_request(version=3),
        handshake("PLAIN"),
        authenticate(plain("alice"), version=1),
        authenticate(plain("alice"), version=2),
        authenticate(client_first("alice")),
    ]
)
ANSWERS = st.sampled_from(
    [
        produce_response(version=8),
        produce_response(version=12),
        fetch_response(300),
        fetch_response(9, version=17),
        authenticate_response(version=1),
        authenticate_response(SERVER_FINAL),
    ]
)


def damaged(data: st.DataObject, frame: bytes) -> bytes:
    """The frame with some bytes changed behind its correlation id."""
    changed = bytearray(frame)
    for _ in range(data.draw(st.integers(0, 3))):
        changed[data.draw(st.integers(8, len(frame) - 1))] = data.draw(st.integers(0, 255))
    return bytes(changed)


def filled(frame: bytes, size: int) -> Window:
    window = Window(128 * 1024)
    window.space(len(frame), len(frame))[:size] = frame[:size]
    window.end = size
    return window


@given(data=st.data(), kinds=st.lists(st.tuples(KINDS, ANSWERS), max_size=6))
def test_whatever_comes_sizes_stay_and_nothing_else_than_a_protocol_error_is_raised(
    data: st.DataObject, kinds: list[tuple[bytes, bytes]]
) -> None:
    in_flight = InFlightRequests(Link(throttle(), "peer"), Changes(), RecordedLog())
    frames = ClientFrames(in_flight, ClientThrottle(settings(), QUOTAS, 0.0, RoleStatistics()))
    for number, (request, response) in enumerate(kinds):
        now = 100.0 * number  # nobody is muted any more
        request, response = with_length(damaged(data, request)), with_length(damaged(data, response))
        window = filled(request, data.draw(st.integers(0, len(request))))
        before = bytes(window.view(window.size))
        with contextlib.suppress(ProtocolError):
            step = frames.request(window, len(request), now)
            assert step in (None, len(request), HELD) or isinstance(step, Need | Answer)
        assert len(window.view(window.size)) == len(before)
        window = filled(response, data.draw(st.integers(8, len(response))))
        answered = frames.response(window, now)
        assert answered is None or isinstance(answered, Need)
        in_flight.correlator.pending.clear()
