"""One question to a broker, on a connection of its own, about something that the sidecar itself has to know.

Knows how a frame is sent and an answer received, nothing of what is asked. Invariant: of an answer no more bytes are
received than `most_bytes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import trio

from protocol.api_versions import api_versions_request, newest_version
from protocol.errors import ProtocolError
from protocol.wire.framing import LENGTH_PREFIX_BYTES, frame_size, with_length

from ..errors import ConfigurationError
from ..relay.transport import open_stream

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ..config.settings import Address
    from .login import Login

CLIENT_ID = "throttle-sidecar"
ASKING_ERRORS = (OSError, ProtocolError, ConfigurationError, trio.BrokenResourceError)
"""ConfigurationError: the file with the password cannot be read."""

READING_THREADS = trio.CapacityLimiter(1)
"""For reading long answers. It keeps the interpreter's lock most of the time, which the relay needs, so one at a
time."""


class Broker(NamedTuple):
    """Where a broker is and how it is spoken to: TLS by `context`, with the name that its certificate must have; None:
    plaintext."""

    address: Address
    context: ssl.SSLContext | None = None
    name: str = ""
    login: Login | None = None

    def __str__(self) -> str:
        return str(self.address)


async def answer_of(
    broker: Broker, api_key: int, versions: range, request: Callable[[int], bytes], *, most_bytes: int
) -> tuple[bytes, int]:
    """Return the frame that `broker` answers a request with, and the request's version.

    It is asked first which versions of `api_key` it knows. The newest of those in `versions` is given to `request`,
    which returns the frame; both frames are without their length. Raises one of ASKING_ERRORS; waits as long as the
    broker lets it.
    """
    plain = await open_stream(broker.address)
    stream: trio.abc.Stream = plain
    if broker.context is not None:
        stream = trio.SSLStream(plain, broker.context, server_hostname=broker.name, https_compatible=True)

    async def ask(frame: bytes) -> bytes:
        await stream.send_all(with_length(frame))
        size = frame_size(await _exactly(stream, LENGTH_PREFIX_BYTES), 0, maximum=most_bytes)
        return await _exactly(stream, size)

    async with stream:
        if broker.login is not None:
            if broker.context is None and not broker.login.in_plaintext:
                raise ProtocolError("names.security.protocol is SASL_SSL, and the leg that leads there has no keys")
            await broker.login.run(ask, client_id=CLIENT_ID)
        known = await ask(api_versions_request(0, client_id=CLIENT_ID))
        version = newest_version(known, api_key, versions)
        return await ask(request(version)), version


async def _exactly(stream: trio.abc.Stream, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        received = await stream.receive_some(size - len(data))
        if not received:
            raise ProtocolError(
                f"the broker closed the connection {size - len(data)} bytes before the end of its answer"
            )
        data += received
    return bytes(data)
