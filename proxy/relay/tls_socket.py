"""A TLS connection, its handshake done, as a direction's transport: tried first, never waited for.

OpenSSL works on the socket itself. Beside a pair of memory buffers, or a Trio stream, that saves a copy and a wake-up
for every record, and a relay of such sockets is as fast as HAProxy (docs/benchmarks.md).

Two things differ from a plain socket. OpenSSL gives one record at a time and may hold a part of it, so that only its
own word that it needs more makes this side unreadable. And a read may have to write before it goes on (the peer wants
new keys, RFC 8446 4.6.3), a write to read: from then on what waits for either is woken by both, which costs a try.

Invariant: nothing that did not pass OpenSSL is ever given to a reader or a peer, after an end or an error either.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import ssl
from typing import TYPE_CHECKING

from ..tls.openssl_errors import forget_errors
from ..tls.tls_watchdog import TLS_WATCHDOG
from .transport import WOULD_WAIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.wire.framing import Bytes

READ_BYTES = 256 * 1024
"""The most that is decrypted at once, sixteen full records: a tenth of a millisecond."""
ANY_EVENT = select.EPOLLIN | select.EPOLLOUT if hasattr(select, "epoll") else 1
RECORD_BYTES = 16 * 1024
"""The plaintext of a full record (RFC 8446, 5.1)."""
WRITE_BYTES = 256 * 1024
"""The bytes given to OpenSSL in one call; with a quarter of it bulk took 1.05 of the CPU. OpenSSL may have encrypted
bytes that it could not send, and then wants the same bytes again, and no fewer: the sender keeps everything that `send`
did not count."""
_CORK: int = getattr(socket, "TCP_CORK", 0)
"""The socket option TCP_CORK of Linux. OpenSSL writes each record by itself, and the kernel sends it, and wakes its
reader, at once. Records that are held back until the last one is written leave in packets of up to 64 KiB: bulk has
1.13 times the throughput, and takes 0.94 of the CPU (measured)."""


class TlsSocket:
    """Owns `sock`, which is not blocking and has done its handshake.

    `refused` is called if the first thing that the peer says after the handshake is an error. In TLS 1.3 a server
    judges the client's certificate only when the client's handshake is already over, so a refusal arrives here.
    """

    __slots__ = (
        "_corks", "_ended", "_failure", "_refused", "_sending_ended", "_sock", "crossed", "hung_up",
        "packet_bytes", "readable", "splices",
    )  # fmt: skip

    def __init__(self, sock: ssl.SSLSocket, refused: Callable[[ssl.SSLError], None] | None = None) -> None:
        self._sock = sock
        self._refused = refused
        self._corks = bool(_CORK) and sock.family != socket.AF_UNIX
        self._ended = self._sending_ended = False
        self._failure: OSError | None = None
        self.readable = True
        self.hung_up = False
        self.crossed = 0
        self.splices = False
        self.packet_bytes = 0

    def fileno(self) -> int:
        return self._sock.fileno()

    def receive_into(self, view: memoryview) -> int:
        """Decrypt as many records as have come and fit."""
        if self._failure is not None:
            raise self._failure
        if self._ended:
            return 0
        received = 0
        TLS_WATCHDOG.begin(self._sock.fileno())
        try:
            received = self._decrypt_into(view)
        finally:
            if TLS_WATCHDOG.end():
                aborted = "what it sends keeps OpenSSL busy, and is no data"
                self._failed(ConnectionAbortedError(errno.ECONNABORTED, aborted), received)
        if received:
            self._refused = None
            return received
        return 0 if self._ended else WOULD_WAIT

    def _decrypt_into(self, view: memoryview) -> int:
        received, most = 0, min(len(view), READ_BYTES)
        sock = self._sock
        try:
            while received < most:
                count = sock.recv_into(view[received:most])
                received += count
                if count < RECORD_BYTES:
                    # A record that is not full is usually the last one that the peer wrote. What has come goes on now;
                    # to ask OpenSSL for more would usually be in vain.
                    self._ended = not count
                    break
        except ssl.SSLWantReadError:
            self.readable = False
        except ssl.SSLWantWriteError:
            self.readable, self.crossed = False, ANY_EVENT
        except OSError as error:
            self._failed(error, received)
        return received

    def peek_into(self, _: memoryview) -> int:
        """Raise OSError: `splices` is false."""
        raise OSError("what is encrypted cannot be looked at before it is read")

    def send(self, data: Bytes) -> int:
        """Send as much as goes. Bytes that are not counted have to be given again, all of them."""
        view, sent = memoryview(data), 0
        corked = self._corks and len(view) > RECORD_BYTES
        try:
            if corked:
                self._cork(1)
            while sent < len(view):
                sent += self._sock.send(view[sent : sent + WRITE_BYTES])
        except ssl.SSLWantWriteError:
            pass
        except ssl.SSLWantReadError:
            self.crossed = ANY_EVENT
        except OSError as error:
            forget_errors()
            self._hear()
            # `_hear` may have read a byte that is lost, so nothing may be read after it: reading raises this error.
            self._failure = self._failure or error
            raise
        finally:
            if corked:
                self._cork(0)
        return sent

    def _cork(self, on: int) -> None:
        with contextlib.suppress(OSError):  # whatever is wrong with the socket, sending reports it better
            self._sock.setsockopt(socket.IPPROTO_TCP, _CORK, on)

    def finish_sending(self) -> None:
        """End this direction as a plain socket does, without a close_notify. After `SSLSocket.shutdown`, what still
        comes from the peer would be read as if it were plaintext, and `unwrap` may fail because of it. The peer can
        tell an early end all the same: a frame's length says how long the frame is."""
        self._sending_ended = True
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._sock, socket.SHUT_WR)

    def close(self) -> None:
        """Send the peer a close_notify if that is possible without waiting, and close the socket."""
        if not self._sending_ended and self._failure is None:
            TLS_WATCHDOG.begin(self._sock.fileno())
            try:
                with contextlib.suppress(OSError, ValueError):
                    self._sock.unwrap()
            finally:
                forget_errors()
                TLS_WATCHDOG.end()
        self._sock.close()

    def _hear(self) -> None:
        """Read once after sending has failed, if nothing was read from the peer yet, since a peer that refuses the
        certificate says so before it hangs up."""
        if self._refused is not None and self._failure is None:
            with contextlib.suppress(OSError):
                self.receive_into(memoryview(bytearray(1)))

    def _failed(self, error: OSError, received: int) -> None:
        """Raise the error now, or at the next read if bytes came before it."""
        forget_errors()
        self._failure = error
        if self._refused is not None and isinstance(error, ssl.SSLError):
            self._refused(error)
        if not received:
            raise error
