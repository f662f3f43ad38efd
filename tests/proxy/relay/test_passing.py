"""What is not altered passes byte for byte, however it is cut into pieces, in both directions."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.wire.framing import with_length
from proxy.quotas import Quotas
from tests.proxy.conversation import fetch_frame, throttle

from .wire import T0, T1, Wire, answer, batch, entry, patient_clock, read_exactly, relayed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.throttle.role_throttle import RoleThrottle

pytestmark = pytest.mark.usefixtures("no_lingering")

GOLDEN = Path(__file__).parents[2] / "protocol" / "golden" / "frames"


class Case(NamedTuple):
    """`asks` and `tells` are whole streams, length prefixes included; `undecoded` is what is counted."""

    asks: bytes
    tells: bytes
    undecoded: dict[str, int]


def golden(name: str) -> bytes:
    return with_length((GOLDEN / f"{name}.bin").read_bytes())


def told(frame: bytes, body: bytes = b"anything") -> bytes:
    """An answer to the request (length prefix included) with its correlation id."""
    return with_length(frame[8:12] + body)


def fetch(version: int = 3) -> bytes:
    return with_length(fetch_frame({T0: 5, T1: 9}, version=version))


def consumer(version: int) -> bytes:
    return golden(f"fetch-request-v{version}-consumer-one")


def golden_fetch(version: int) -> bytes:
    """A replica's full request outside any session."""
    return golden(f"fetch-request-v{version}-replica-two")


def golden_answer(version: int) -> bytes:
    """An answer with records, with the correlation id of that request."""
    frame = bytearray(golden(f"fetch-response-v{version}-two"))
    frame[4:8] = golden_fetch(version)[8:12]
    return bytes(frame)


def records(version: int = 3) -> bytes:
    """An answer with everything an entry may have."""
    aborted = [(7, 8), (9, 10)] if version >= 4 else None
    entries = [entry(0, batch(5000), aborted=aborted), entry(1, None, error=0)]
    return with_length(answer({"t": entries, "u": [entry(3, b"", error=6)]}, version=version))


PRODUCE, NO_ACKS = golden("produce-v3-acks1"), golden("produce-v3-acks0")
CONSUMER = golden("fetch-request-v3-consumer-one")
HANDSHAKE, TOKEN = golden("sasl-handshake-v0"), with_length(b"\0user\0secret")
UNKNOWN = with_length(bytes.fromhex("03e7 0001 00000009 ffff 00") + b"whatever")
SHUTDOWN = golden("controlled-shutdown-v0")
BAD_FETCH = with_length(fetch_frame({T0: 5})[:-3])
FUTURE_FETCH = with_length(bytes.fromhex("0001 0013 00000007 ffff 00 00000066") + bytes(40))
FAR_FETCH = with_length(bytes.fromhex("0001 0063 00000007 ffff 00 00000066") + bytes(40))
HELLO = bytes.fromhex("16030100fa010000f60303") + bytes(range(240))

CASES = {
    "nothing": Case(b"", b"", {}),
    "produce with and without an answer": Case(NO_ACKS + PRODUCE + NO_ACKS * 2, told(PRODUCE), {}),
    "every produce version": Case(
        b"".join(golden(f"produce-v{v}-acks0") for v in (0, 2, 3, 8, 9, 11)) + golden("produce-v11-acks1-transaction"),
        told(golden("produce-v11-acks1-transaction")),
        {},
    ),
    "a consumer": Case(CONSUMER * 3, told(CONSUMER) * 3, {}),
    **{f"replicas, v{v}": Case(fetch(v), records(v), {}) for v in range(7)},
    "replicas, pipelined": Case(fetch() * 4, records() * 4, {}),
    "consumer and replica on one connection": Case(
        CONSUMER + fetch() + NO_ACKS + fetch(5), told(CONSUMER) + records() + records(5), {}
    ),
    "an unknown api": Case(UNKNOWN * 2 + PRODUCE, told(UNKNOWN) * 2 + told(PRODUCE), {}),
    "controlled shutdown without a client id": Case(SHUTDOWN + fetch(), told(SHUTDOWN) + records(), {}),
    "sasl tokens": Case(
        HANDSHAKE + TOKEN + with_length(b"") + fetch(),
        told(HANDSHAKE) + with_length(b"") + with_length(b"abc") + records(),
        {},
    ),
    "tokens from byte 0 on": Case(TOKEN * 2 + fetch(), with_length(b"ok") * 2 + records(), {}),
    "an empty frame": Case(with_length(b"") + fetch(), with_length(b"") + records(), {}),
    "tls": Case(HELLO * 2, HELLO[::-1] + b"\x15\x03\x03", {"tls": 1}),
    "tls, a lone alert": Case(HELLO, bytes.fromhex("15030300020228"), {"tls": 1}),
    "a negative size in an answer": Case(fetch(), records() + b"\x80\0\0\0garbage", {"framing": 1}),
    "a version that, first of all, would be a token": Case(
        PRODUCE + FAR_FETCH, told(PRODUCE) + told(FAR_FETCH), {"unsupported_version": 1}
    ),
    "a version to come": Case(FUTURE_FETCH, told(FUTURE_FETCH), {"unsupported_version": 1}),
    **{f"consumers in sessions, v{v}": Case(consumer(v) * 2, told(consumer(v)) * 2, {}) for v in (7, 11, 12, 15, 17)},
    **{f"replicas, v{v}": Case(golden_fetch(v), golden_answer(v), {}) for v in range(7, 19)},
    "a malformed fetch": Case(BAD_FETCH + PRODUCE, told(BAD_FETCH) + told(PRODUCE), {"malformed_request": 1}),
    "an answer nobody asked for": Case(fetch(), told(PRODUCE) + records() + told(PRODUCE), {}),
    "a correlation id used twice": Case(PRODUCE + fetch() * 2, told(PRODUCE) + records() * 2, {}),
    "a torn answer": Case(fetch(), with_length(answer([entry(0)])[:-1]), {"malformed_response": 1}),
    "an answer that is too long": Case(fetch(), with_length(answer([entry(0)]) + b"!"), {"malformed_response": 1}),
    "an answer that ends in its header": Case(fetch(), told(fetch(), b"\0\0\0"), {"malformed_response": 1}),
    "an answer of a correlation id only": Case(fetch(), told(fetch(), b""), {"malformed_response": 1}),
}


async def send_in(stream: trio.SocketStream, data: bytes, sizes: Sequence[int]) -> None:
    """Send `data` in pieces of `sizes`, again and again; let everybody look at each."""
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        await stream.send_all(data[at : at + size])
        await trio.testing.wait_all_tasks_blocked()
        at, turn = at + size, turn + 1
    await stream.send_eof()


def listed() -> RoleThrottle:
    """Every partition may be throttled, so every Fetch is looked at."""
    return throttle(math.inf)


def idle() -> RoleThrottle:
    """No partition can be throttled."""
    of = throttle()
    of.apply(Quotas(), 0.0)
    return of


OPAQUE = {"tls", "framing"}
LOOKED_AT = {"unsupported_version", "malformed_request", "malformed_response"}
"""What cannot be found out about a Fetch that nobody looks at."""


async def passes(
    case: Case,
    asks: Sequence[int],
    tells: Sequence[int],
    *,
    of: Callable[[], RoleThrottle] = listed,
    by_trio: bool = False,
) -> Wire:
    async with relayed(of(), by_trio=by_trio) as wire, trio.open_nursery() as nursery:
        nursery.start_soon(send_in, wire.follower, case.asks, asks)
        assert await read_exactly(wire.leader, len(case.asks) + 1) == case.asks
        nursery.start_soon(send_in, wire.leader, case.tells, tells)
        assert await read_exactly(wire.follower, len(case.tells) + 1) == case.tells
        assert wire.throttle.statistics.opaque_connections == sum(
            case.undecoded[each] for each in OPAQUE & {*case.undecoded}
        )
    undecoded = {reason: n for reason, n in case.undecoded.items() if of is listed or reason not in LOOKED_AT}
    assert wire.throttle.statistics.undecoded == undecoded
    lines = [line["reason"] for line in wire.log.lines if line["event"] == "passed_undecoded"]
    assert lines == list(undecoded)
    assert wire.throttle.statistics.relayed_request_bytes == len(case.asks)
    assert wire.throttle.statistics.relayed_response_bytes == len(case.tells)
    return wire


@pytest.mark.parametrize("by_trio", [False, True])
@pytest.mark.parametrize("of", [listed, idle])
@pytest.mark.parametrize("name", CASES)
async def test_whole(
    name: str, of: Callable[[], RoleThrottle], clock: trio.testing.MockClock, *, by_trio: bool
) -> None:
    """`by_trio`: as it is where there is no epoll."""
    wire = await passes(CASES[name], [1 << 20], [1 << 20], of=of, by_trio=by_trio)
    assert wire.ending["cause"] in ("follower_closed", "leader_closed")


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@settings(max_examples=4)
def test_in_pieces(name: str, data: st.DataObject) -> None:
    case = CASES[name]
    sizes = st.lists(st.integers(1, 40), min_size=1, max_size=6)
    least = max(len(case.asks), len(case.tells)) // 300  # hundreds of pieces, not thousands
    asks, tells = (
        [size + least for size in data.draw(sizes)] if len(stream) > 600 else data.draw(sizes)
        for stream in (case.asks, case.tells)
    )

    async def scenario() -> None:
        await passes(case, asks, tells, of=data.draw(st.sampled_from([listed, idle])))

    trio.run(scenario, clock=patient_clock())


@pytest.mark.parametrize("pieces", [[1 << 20], [40], [7]])
@pytest.mark.parametrize("version", [3, 14, 15, 17])
async def test_only_replicas_fetches_are_counted(
    version: int, pieces: list[int], clock: trio.testing.MockClock
) -> None:
    """However the frames come, and by whichever way they pass."""
    asks = golden_fetch(version) if version > 6 else fetch(version)
    case = Case(asks + consumer(version) * 2 + asks, told(asks) + told(consumer(version)) * 2 + told(asks), {})
    wire = await passes(case, pieces, pieces, of=idle)
    assert wire.throttle.statistics.fetch_requests == {version: 2}
    assert wire.ending["replica_fetches"] == 2


@pytest.mark.parametrize("of", [listed, idle])
async def test_a_client_id_length_below_null_is_null(
    of: Callable[[], RoleThrottle], clock: trio.testing.MockClock
) -> None:
    asks = with_length(struct.pack(">hhih", 3, 0, 7, -32768)) + PRODUCE
    async with relayed(of()) as wire:
        await wire.follower.send_all(fetch() + asks)
        assert await read_exactly(wire.leader, len(fetch() + asks)) == fetch() + asks
    assert not wire.throttle.statistics.undecoded


@pytest.mark.parametrize("of", [listed, idle])
async def test_a_request_whose_header_is_not_understood_is_answered_as_any_other(
    of: Callable[[], RoleThrottle], clock: trio.testing.MockClock
) -> None:
    """Its correlation id can be read all the same: frames that follow were taken for SASL tokens."""
    asks = with_length(struct.pack(">hhih", 0, 9, 70, -1) + b"\x41" + bytes(200))
    async with relayed(of()) as wire:
        await wire.follower.send_all(fetch() + asks)
        assert await read_exactly(wire.leader, len(fetch() + asks)) == fetch() + asks
        told = with_length((70).to_bytes(4) + b"\0" + bytes(20))
        await wire.leader.send_all(told)
        assert await read_exactly(wire.follower, len(told)) == told
        wire.draining.begun.set()
        await wire.finished.wait()
    assert wire.throttle.statistics.undecoded == {"malformed_request": 1}
    assert wire.ending["cause"] == "drained"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if len(case.asks) + len(case.tells) < 700])
def test_one_byte_at_a_time(name: str) -> None:
    async def scenario() -> None:
        await passes(CASES[name], [1], [1])

    trio.run(scenario, clock=patient_clock())


async def test_a_connection_that_both_sides_make_opaque_is_one() -> None:
    """The leader begins with what is no frame, and then the follower with TLS."""
    async with relayed(listed()) as wire:
        await wire.leader.send_all(b"\xff\xff\xff\xff")
        assert await read_exactly(wire.follower, 4) == b"\xff\xff\xff\xff"
        await wire.follower.send_all(HELLO)
        assert await read_exactly(wire.leader, len(HELLO)) == HELLO
        assert wire.throttle.statistics.undecoded == {"framing": 1, "tls": 1}
        assert wire.throttle.statistics.opaque_connections == 1
