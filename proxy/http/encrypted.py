"""TLS on an HTTP connection. A handshake's signature, a millisecond or two of the loop, is done in a turn,
and so is whatever OpenSSL reads afterwards.

Trio's own stream would do it whenever its peer's bytes come. With a thousand a second of one ClientHello, sent again
and again, which costs a stranger nothing, a turn of the loop took 4.3 ms, and 49 at worst; here it takes 0.4, and 12
at worst (measured on two cores). OpenSSL works on bytes in memory; sockets are the transport's.

Invariant: raises the errors of `trio.SocketStream`, and BrokenResourceError with OpenSSL's error as its cause.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from ..tls.openssl_errors import forget_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from .loop_share import LoopShare

_RECEIVE_BYTES = 16 * 1024
_HANDSHAKE_BYTES = 4 * 1024
"""The bytes that OpenSSL is given at once until the handshake is over. A whole message usually fits."""
_PIECE_BYTES = 512
"""The bytes that it is given at once afterwards. OpenSSL reads on until it finds data. Of messages that change keys,
which have 27 bytes each, it worked off 16 KiB in one step, which took 6 ms of a core; 512 bytes take 0.2 ms."""
_SEND_BYTES = 64 * 1024
"""The bytes that are encrypted at once when an answer is sent: 0.05 ms."""
_Done = TypeVar("_Done")


class EncryptedStream:
    """The server's end of a TLS stream. Call `shake_hands` first."""

    def __init__(self, transport: trio.SocketStream, context: ssl.SSLContext, turn: LoopShare) -> None:
        self._transport = transport
        self._turn = turn
        self._waits = memoryview(b"")
        """Bytes that have come and that OpenSSL has not been given yet."""
        self._came, self._goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._openssl = context.wrap_bio(self._came, self._goes, server_side=True)

    async def shake_hands(self) -> None:
        """Complete the TLS handshake. Raises trio.BrokenResourceError."""
        while True:
            try:
                async with self._turn:
                    is_done = self._attempt(self._has_shaken_hands)
            except trio.BrokenResourceError:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._flush()  # OpenSSL's alert, which tells the peer why
                raise
            await self._flush()
            if is_done:
                return
            await self._fill(_HANDSHAKE_BYTES)

    def peer_certificate(self) -> bytes | None:
        """Return the verified certificate of the peer in DER, after the handshake; None if it sent none."""
        return self._openssl.getpeercert(binary_form=True)

    async def receive_some(self, most_bytes: int) -> bytes:
        """Return the bytes received; none once the peer has ended, whether it said so in TLS or not. A peer that ends
        early is noticed all the same, since HTTP says how long a body is."""
        while True:
            try:
                async with self._turn:
                    received = self._attempt(partial(self._openssl.read, most_bytes))
            except trio.BrokenResourceError as error:
                if isinstance(error.__cause__, ssl.SSLZeroReturnError | ssl.SSLEOFError):
                    return b""
                raise
            await self._flush()  # an answer to a key that was changed
            if received is not None:
                return received
            await self._fill()

    async def send_all(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            piece, left = left[:_SEND_BYTES], left[_SEND_BYTES:]
            while piece:
                written = self._attempt(partial(self._openssl.write, piece))
                await self._flush()
                if written is None:
                    await self._fill()
                else:
                    piece = piece[written:]

    def _has_shaken_hands(self) -> bool:
        self._openssl.do_handshake()
        return True

    def _attempt(self, work: Callable[[], _Done]) -> _Done | None:
        """Return the result of `work`; None if OpenSSL needs more bytes of the peer first."""
        try:
            return work()
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLError as error:
            forget_errors()
            raise trio.BrokenResourceError from error

    async def _fill(self, most_bytes: int = _PIECE_BYTES) -> None:
        if not self._waits:
            self._waits = memoryview(await self._transport.receive_some(_RECEIVE_BYTES))
            if not self._waits:
                self._came.write_eof()
                return
        piece, self._waits = self._waits[:most_bytes], self._waits[most_bytes:]
        self._came.write(piece)

    async def _flush(self) -> None:
        if self._goes.pending:
            await self._transport.send_all(self._goes.read())
