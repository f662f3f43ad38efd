"""One question to a broker, on a connection of its own: for what the sidecar wants to know itself.

Knows how a frame is sent and an answer received, nothing of what is asked. Invariant: an answer is received no further
than it may be long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from protocol.errors import ProtocolError
from protocol.wire.framing import LENGTH_PREFIX_BYTES, frame_size, with_length

if TYPE_CHECKING:
    from ..config.settings import Address


async def answer_of(broker: Address, request: bytes, *, most_bytes: int) -> bytes:
    """Return the frame that `broker` answers `request` with, both without their length.

    Raises OSError, ProtocolError, trio.BrokenResourceError; waits as long as the broker lets it.
    """
    stream = await trio.open_tcp_stream(broker.host, broker.port)
    async with stream:
        await stream.send_all(with_length(request))
        size = frame_size(await _exactly(stream, LENGTH_PREFIX_BYTES), 0, maximum=most_bytes)
        return await _exactly(stream, size)


async def _exactly(stream: trio.SocketStream, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        received = await stream.receive_some(size - len(data))
        if not received:
            raise ProtocolError(
                f"the broker closed the connection {size - len(data)} bytes before the end of its answer"
            )
        data += received
    return bytes(data)
