"""One relayed connection between real loopback sockets, and what must be true of it whatever happened.

The tests play the follower and the leader. Clocks are mocked but patient: time jumps only after the kernel has
had `PATIENCE_SECONDS` to deliver what is on its way, so a hold of half a second costs a test a hundredth.
"""

from __future__ import annotations

import contextlib
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import trio
import trio.testing

from admission.budget import StrictBudget
from protocol.fetch.tables import response_layout
from protocol.wire.framing import with_length
from proxy.changes import Changes
from proxy.clients.frames import attach_clients
from proxy.config.settings import Address, LimitSettings
from proxy.relay.connection import Draining, relay
from proxy.relay.poller import open_poller
from proxy.relay.transport import PlainSocket
from tests.proxy.conversation import MIB, fetch_frame, throttle
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from typing import Any

    from proxy.clients.throttle import ClientThrottle
    from proxy.relay.connection import Connection
    from proxy.relay.reaper import Reaper
    from proxy.throttle.role_throttle import RoleThrottle

PATIENCE_SECONDS = 0.02
CORRELATION_ID = 7
"""Of every request that `fetch_frame` builds."""
Key = tuple[str, int]
T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


def patient_clock() -> trio.testing.MockClock:
    return trio.testing.MockClock(autojump_threshold=PATIENCE_SECONDS)


def limits(**changed: float) -> LimitSettings:
    values: dict[str, Any] = {
        "max_request_bytes": 8 * MIB,
        "max_substitution_bytes": 16 * MIB,
        "connect_timeout_seconds": 2.0,
        "drain_seconds": 5.0,
    }
    return LimitSettings(**values | changed)


def reserved_bytes(of: RoleThrottle) -> float:
    """What grants hold of the budget: 0 when nothing is in flight, or the budget leaks."""
    assert isinstance(of.budget, StrictBudget)
    return of.budget._bucket._reserved


async def read_exactly(stream: trio.abc.ReceiveStream, size: int) -> bytes:
    """Return exactly so many bytes; fewer only at the end of the stream."""
    data = bytearray()
    while len(data) < size and (received := await stream.receive_some(min(size - len(data), MIB))):
        data += received
    return bytes(data)


async def read_all(stream: trio.abc.ReceiveStream) -> bytes:
    """Return everything until the end; a reset counts as one."""
    data = bytearray()
    try:
        while received := await stream.receive_some(65536):
            data += received
    except trio.BrokenResourceError:
        pass
    return bytes(data)


async def read_frame(stream: trio.abc.ReceiveStream) -> bytes:
    """Return the next frame without its length prefix."""
    (prefix) = await read_exactly(stream, 4)
    assert len(prefix) == 4, "the stream ended instead of a frame"
    return await read_exactly(stream, int.from_bytes(prefix, signed=True))


@dataclass
class Wire:
    """`follower` and `leader` are the tests' ends."""

    follower: trio.SocketStream
    leader: trio.SocketStream
    throttle: RoleThrottle
    changes: Changes
    draining: Draining
    log: RecordedLog
    finished: trio.Event = field(default_factory=trio.Event)

    @property
    def ending(self) -> dict[str, Any]:
        """The one line about the connection's end."""
        lines = [line for line in self.log.lines if line["event"] == "connection_closed"]
        assert len(lines) == 1, self.log.lines
        return lines[0]

    async def ask(self, offsets: dict[Key, int], **options: int) -> None:
        await self.follower.send_all(with_length(fetch_frame(offsets, **options)))

    async def asked(self) -> bytes:
        """The next request that reaches the leader."""
        return await read_frame(self.leader)

    async def in_flight(self, offsets: dict[Key, int], answer: bytes, **options: int) -> tuple[bytes, bytes]:
        """One fetch and its answer: what the leader got, what the follower got."""
        await self.ask(offsets, **options)
        request = await self.asked()
        await self.leader.send_all(with_length(answer))
        return request, await read_frame(self.follower)


@asynccontextmanager
async def relayed(
    of: RoleThrottle | None = None,
    *,
    changes: Changes | None = None,
    by_trio: bool = False,
    reaper: Reaper | None = None,
    restore: Callable[[Connection], object] | None = None,
    clients: ClientThrottle | None = None,
    **changed: float,
) -> AsyncIterator[Wire]:
    """A relayed connection. However the block leaves it, it ends, once, and gives back what it had.

    `by_trio`: as where there is no epoll.
    """
    of = of or throttle()
    before = _open(of)
    log = RecordedLog()
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    ours, theirs = socket.socketpair()
    follower = trio.SocketStream(trio.socket.from_stdlib_socket(_nonblocking(ours)))
    changes, draining = changes or Changes(), Draining()
    with trio.fail_after(60):
        async with (
            listener,
            follower,
            contextlib.nullcontext() if by_trio else open_poller() as poller,
            trio.open_nursery() as nursery,
        ):
            finished = trio.Event()

            async def run() -> None:
                address = Address(*listener.socket.getsockname()[:2])
                await relay(
                    PlainSocket(theirs), address, peer="102", throttle=of, limits=limits(**changed), changes=changes,
                    draining=draining, poller=poller, log=log, reaper=reaper, restore=restore,
                    clients=None if clients is None else partial(attach_clients, clients),
                )  # fmt: skip
                finished.set()

            nursery.start_soon(run)
            leader = await listener.accept()
            async with leader:
                wire = Wire(follower, leader, of, changes, draining, log, finished)
                yield wire
            await follower.aclose()
            with trio.fail_after(5):
                await finished.wait()
            nursery.cancel_scope.cancel()
    assert wire.ending["cause"]
    connections, opaque, links = _open(of)
    assert (connections, links) == (before[0], before[2])
    assert opaque <= before[0]
    assert of.statistics.held_requests == 0
    if isinstance(of.budget, StrictBudget):
        assert reserved_bytes(of) == 0


def _open(of: RoleThrottle) -> tuple[int, int, int]:
    """The open connections of this throttle, those of them that are opaque, and its links."""
    return of.statistics.connections, of.statistics.opaque_connections, len(of.links)


def _nonblocking(sock: socket.socket) -> socket.socket:
    sock.settimeout(0.0)
    return sock


def entry(
    partition: int,
    records: bytes | None = b"",
    *,
    high_watermark: int = 1_000_000,
    error: int = 0,
    log_start_offset: int = 3,
    aborted: Sequence[tuple[int, int]] | None = None,
) -> dict[str, Any]:
    """One partition of a leader's answer."""
    transactions = None
    if aborted is not None:
        transactions = [{"producer_id": who, "first_offset": first} for who, first in aborted]
    return {
        "partition_index": partition,
        "error_code": error,
        "high_watermark": high_watermark,
        "last_stable_offset": high_watermark,
        "log_start_offset": log_start_offset,
        "aborted_transactions": transactions,
        "records": records,
    }


def answer(
    entries: Mapping[str, Sequence[dict[str, Any]]] | Sequence[dict[str, Any]],
    *,
    version: int = 3,
    correlation_id: int = CORRELATION_ID,
) -> bytes:
    """A leader's frame, as Construct builds it; a bare list is topic "t"."""
    topics = entries if isinstance(entries, dict) else {"t": entries}
    blocks = [{"topic": topic, "partitions": list(members)} for topic, members in topics.items()]
    body = response_layout(version).build({"throttle_time_ms": 0, "responses": blocks})
    return correlation_id.to_bytes(4, signed=True) + bytes(body)


def parsed(frame: bytes, *, version: int = 3) -> list[tuple[Key, int, int, int]]:
    """(key, error, high watermark, record bytes) per entry, as Construct reads it; null records are -1."""
    body = response_layout(version).parse(frame[4:])
    return [
        (
            (block.topic, found.partition_index),
            found.error_code,
            found.high_watermark,
            found.records.size_bytes,
        )
        for block in body.responses
        for found in block.partitions
    ]


def batch(size: int, fill: bytes = b"r") -> bytes:
    """Records of one batch of `size` bytes, whose length field says so."""
    return bytes(8) + (size - 12).to_bytes(4) + fill * (size - 12)
