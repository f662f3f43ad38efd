"""What a follower that does not wait for its answers may have in flight, and what a torn header costs."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from protocol.errors import ProtocolError
from protocol.wire import headers
from protocol.wire.framing import with_length, write_uvarint
from proxy.relay import requests
from proxy.relay.in_flight import MAX_DECIDED_IN_FLIGHT, MAX_IN_FLIGHT

from .test_passing import fetch, idle, listed, records, send_in, told
from .wire import read_exactly, relayed

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.testing import MockClock

    from proxy.throttle.role_throttle import RoleThrottle

METADATA = with_length(struct.pack(">hhih", 3, 1, 7, 3) + b"abc" + struct.pack(">i", -1))


@pytest.mark.parametrize("by_trio", [False, True])
@pytest.mark.parametrize(
    ("of", "request_", "response", "most", "full"),
    [
        (idle, METADATA, told(METADATA), MAX_IN_FLIGHT, "requests"),
        (listed, fetch(), records(), MAX_DECIDED_IN_FLIGHT, "fetches"),
    ],
    ids=["passed", "decided"],
)
async def test_so_many_are_in_flight_and_the_rest_waits(
    of: Callable[[], RoleThrottle],
    request_: bytes,
    response: bytes,
    most: int,
    full: str,
    clock: MockClock,
    *,
    by_trio: bool,
) -> None:
    asked, throttle = request_ * (most + 3), of()
    async with relayed(throttle, by_trio=by_trio) as wire, trio.open_nursery() as nursery:
        nursery.start_soon(wire.follower.send_all, asked)
        assert await read_exactly(wire.leader, most * len(request_)) == asked[: most * len(request_)]
        with trio.move_on_after(1) as waits:
            await wire.leader.receive_some(1)
        assert waits.cancelled_caught
        await wire.leader.send_all(response * (most // 2))
        assert await read_exactly(wire.follower, len(response) * (most // 2)) == response * (most // 2)
        assert await read_exactly(wire.leader, 3 * len(request_)) == request_ * 3
        assert throttle.statistics.in_flight_pauses == {full: 1}


async def test_where_frames_cannot_be_told_apart_nobody_waits_for_room(clock: MockClock) -> None:
    asked = METADATA * (MAX_IN_FLIGHT + 3)
    async with relayed(idle()) as wire, trio.open_nursery() as nursery:
        nursery.start_soon(wire.follower.send_all, asked)
        await read_exactly(wire.leader, MAX_IN_FLIGHT * len(METADATA))
        await wire.leader.send_all(b"\xff" * 8)
        assert await read_exactly(wire.leader, 3 * len(METADATA)) == METADATA * 3


async def test_a_header_that_comes_byte_by_byte_is_parsed_a_few_times(
    clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """60 tagged fields, 785 bytes: each byte made it be parsed from its beginning."""
    looks = []

    def counted(buffer: bytes, start: int, end: int) -> object:
        looks.append(end - start)
        return headers.peek_request(buffer, start, end)

    monkeypatch.setattr(requests, "peek_request", counted)
    tags = write_uvarint(60) + b"".join(write_uvarint(tag) + b"\x0b" + bytes(11) for tag in range(60))
    frame = with_length(struct.pack(">hhih", 18, 3, 7, -1) + tags + b"\x01\x01\x00")
    async with relayed(idle()) as wire, trio.open_nursery() as nursery:
        nursery.start_soon(send_in, wire.follower, frame, [1])
        assert await read_exactly(wire.leader, len(frame)) == frame
    assert 1 < len(looks) < 10
    assert looks == sorted(looks)


def test_a_header_has_few_tagged_fields() -> None:
    head = struct.pack(">hhih", 18, 3, 7, -1)
    assert headers.peek_request(head + b"\x40" + b"\0\0" * 64, 0, 138) is None
    found = headers.peek_request(head + b"\x40" + b"\0\0" * 64, 0, 139)
    assert found is not None
    assert found.body_at == 139
    with pytest.raises(ProtocolError, match="65 tagged fields"):
        headers.peek_request(head + b"\x41", 0, 11)
