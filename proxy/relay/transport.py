"""Defines what a direction reads from and writes to: it never waits, and returns WOULD_WAIT instead.

A Trio stream costs 8-10 µs a call even when data is there, a bare non-blocking call under 1 µs (measured), so the
byte path uses plain sockets, and others wait for them (`poller`, `connection`). A socket with TLS is another
`Transport` (`tls_socket`): it receives and sends, and has nothing that the kernel could splice.

Invariant: `readable` becomes false only when a read finds nothing more, and true with the kernel's next report, so no
wait misses its wake-up. Knows no frames.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import math
import os
import socket
import struct
import sys
from typing import TYPE_CHECKING, Any, Protocol

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.wire.framing import Bytes

    from ..config.settings import Address


WOULD_WAIT = -1
PIPE_BYTES = 1024 * 1024
"""The size of a pipe: fs.pipe-max-size, beyond which an unprivileged process may not go."""
UNSENT_BYTES = 16 * 1024
"""The number of unsent bytes in the socket below which there is room to write, as in Trio's streams."""
REDIAL_SECONDS = 0.1, 0.4
"""How long the first dials to an address wait until it is dialled anew. A broker's backlog has 50 places
(socket.listen.backlog.size); what is dialled while it is full is dropped, and the kernel tries again after a second.
Of 500 peers that came at once the last one had its answer after 1.1 s."""
KEEPALIVE_SECONDS, KEEPALIVE_EVERY_SECONDS, KEEPALIVE_PROBES = 60, 15, 4
"""A peer whose host has died, or that a firewall has forgotten, is found out after two minutes of silence."""
SPARED = 8
"""The part of a segment by which packets are shorter: they always fit while windows vary by less than that."""
SEGMENT_BYTES = 16_300
"""The longest segment in TLS. Four of these fill a packet of 64 KiB on loopback; of 16 KiB only three fit, for a tenth
less throughput. A network card's own segments are shorter, and need no bound of either kind."""
SMALL_WINDOW_SCALE = 1
"""The window scale of a peer whose window stays below 128 KiB (RFC 7323: 65535 << 1)."""
_INFO = struct.Struct("=6xB9xI")
"""The window scales and tcpi_snd_mss of struct tcp_info."""
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)
"""The value of SO_LINGER (socket(7)) that resets: on, for zero seconds."""


class Wait(enum.Enum):
    """The reason why a direction is blocked."""

    READ = "something to read"
    WRITE = "room to write"
    HELD = "a decision, or the answers to earlier requests"
    TURN = "the others' turn"
    END = "nothing: it is through"


# A member costs ten times a global's look-up (Python 3.11), and these are looked up for every frame.
READ, WRITE, HELD, TURN, END = Wait.READ, Wait.WRITE, Wait.HELD, Wait.TURN, Wait.END


class ConnectionEndedError(ConnectionError):
    """A peer finished sending in the middle of a frame."""


class Transport(Protocol):
    """One end of a relayed connection. Every method raises OSError when the connection is broken."""

    readable: bool
    hung_up: bool
    """True if the kernel reported that the peer has finished sending, perhaps together with its last data: it reports
    nothing more, so reading goes on until the end is read."""
    splices: bool
    """True if the kernel can move bytes from and to this socket by itself, and show them before they are read
    (`peek_into`)."""
    crossed: int
    """The further events of epoll that each report stands for; 0: none. In TLS a read may have to wait until there is
    room to write, and a write until there is something to read; then a report of either event wakes both."""

    @property
    def packet_bytes(self) -> int:
        """The most bytes that the peer is sent in one packet, since its window is small (`needs_short_packets`); 0: any
        number."""

    def fileno(self) -> int: ...

    def receive_into(self, view: memoryview) -> int:
        """Return how many bytes came; 0 at the end, WOULD_WAIT if there is nothing yet."""

    def peek_into(self, view: memoryview) -> int:
        """Return the same, but the bytes stay in the socket, to be read later."""

    def send(self, data: Bytes) -> int:
        """Return how many bytes were taken; 0 if there is no room."""

    def finish_sending(self) -> None: ...

    def close(self) -> None: ...


class PlainSocket:
    """Owns `sock`, which it sets non-blocking with TCP_NODELAY."""

    __slots__ = ("_needs_short_packets", "crossed", "hung_up", "readable", "sock", "splices")

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(0)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
            _keep_alive(sock)
        self.sock = sock
        self.readable = True
        self.hung_up = False
        self.crossed = 0
        self.splices = hasattr(os, "splice")
        self._needs_short_packets = needs_short_packets(sock)

    @property
    def packet_bytes(self) -> int:
        return packet_bytes(self.sock) if self._needs_short_packets else 0

    def fileno(self) -> int:
        return self.sock.fileno()

    def receive_into(self, view: memoryview) -> int:
        try:
            received = self.sock.recv_into(view)
        except BlockingIOError:
            self.readable = False
            return WOULD_WAIT
        # epoll(7): of a stream, fewer bytes than asked for is all there was.
        if received < len(view):
            self.readable = self.hung_up
        return received

    def peek_into(self, view: memoryview) -> int:
        try:
            return self.sock.recv_into(view, 0, socket.MSG_PEEK)
        except BlockingIOError:
            self.readable = False
            return WOULD_WAIT

    def send(self, data: Bytes) -> int:
        if self._needs_short_packets:
            return self._send_packets(memoryview(data), self.packet_bytes)
        try:
            return self.sock.send(data)
        except BlockingIOError:
            return 0

    def _send_packets(self, data: memoryview, most: int) -> int:
        sent = 0
        try:
            while sent < len(data):
                sent += self.sock.send(data[sent : sent + most], socket.MSG_EOR)
        except BlockingIOError:
            # What was spliced before (SPLICE_F_MORE) waits for these bytes, and they for the room that it takes, until
            # the kernel gives up after 200 ms. To set the option again sends it.
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sent

    def finish_sending(self) -> None:
        """Propagate a half-close; a peer that is already gone needs none."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.sock.close()


def _keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_SECONDS),
        ("TCP_KEEPINTVL", KEEPALIVE_EVERY_SECONDS),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def needs_short_packets(connected: socket.socket) -> bool:
    """Return whether this peer has a small window, and segments that can fill half of it: without short packets it
    waits for 200 ms in the middle of an answer now and then.

    On loopback Linux sends segments of half the widest window that a peer has ever announced. What a peer announces
    varies by some percent (skb->truesize), so a fetcher with Kafka's default buffer of 64 KiB
    (replica.socket.receive.buffer.bytes) may have a little less room than one segment needs, and announces more only
    once that doubles its window. Then nothing moves until the kernel probes, after 200 ms; TCP_RTO_MIN_US does not
    shorten that. Packets below half of the narrowest window always fit. A peer whose window scales to 128 KiB or more
    cannot get there.
    """
    if sys.platform != "linux" or connected.family == socket.AF_UNIX:
        return False
    try:
        scales, segment_bytes = _INFO.unpack(connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size))
    except (OSError, struct.error):  # it is no TCP connection any more
        return False
    theirs: int = scales >> 4 if sys.byteorder == "big" else scales & 15
    return theirs <= SMALL_WINDOW_SCALE and int(segment_bytes) > SEGMENT_BYTES


def packet_bytes(connected: socket.socket) -> int:
    """Return how many bytes one packet to a peer with a small window may have now: windows grow in the first moments.
    Raises OSError."""
    segment_bytes = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
    return segment_bytes - segment_bytes // SPARED


def bound_segments(listener: socket.socket | trio.socket.SocketType) -> None:
    """Bound the segments of the connections that are accepted from now on. OpenSSL writes by itself and makes no short
    packets, so a listener for TLS does this before anything is known of its peers: to the relay of plain bytes it would
    cost up to half of the throughput."""
    if sys.platform == "linux":
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)


class Pipe:
    """Bytes from one socket to the other inside the kernel: they never come to Python.

    0.13-0.18 s of CPU per GB where any copy costs 0.25-0.45 (measured), which on a busy host is what decides whether a
    sidecar slows a move down. Linux only. Invariant: `holds` bytes are in it; after an error it is good for nothing but
    `close`.
    """

    __slots__ = ("_in", "_last", "_out", "holds")

    def __init__(self) -> None:
        """Open the pipe. Raises OSError where pipes of this size are not to be had."""
        self.holds = 0
        self._last = b""
        """The last byte of a packet, if it is still to be sent: it counts in `holds`."""
        self._out, self._in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            self.close()
            raise

    def fill(self, source: Transport, size: int) -> int:
        """Receive up to `size` bytes from the source; return how many, 0 at its end, WOULD_WAIT if nothing comes in."""
        try:
            entered = os.splice(source.fileno(), self._in, min(size, PIPE_BYTES))
        except BlockingIOError:
            # A pipe that holds something may be what is full.
            source.readable = source.readable and self.holds > 0
            return WOULD_WAIT
        self.holds += entered
        return entered

    def drain(self, sink: Transport) -> int:
        """Give what it holds to the sink: how many bytes; 0 if there is no room."""
        before = self.holds
        try:
            if most := sink.packet_bytes:
                while self.holds and self._drain_packet(sink, most):
                    pass
            else:
                self.holds -= os.splice(self._out, sink.fileno(), before)
        except BlockingIOError:
            pass
        return before - self.holds

    def _drain_packet(self, sink: Transport, most: int) -> bool:
        """Give one packet to the sink; return false, or raise BlockingIOError, if there is no room. The kernel joins
        what is spliced with whatever still waits in the socket, unless that was sent with MSG_EOR, as the last byte of
        each packet is here."""
        if not self._last:
            size = min(self.holds, most) - 1
            if size:
                self.holds -= os.splice(self._out, sink.fileno(), size, flags=os.SPLICE_F_MORE)
            self._last = os.read(self._out, 1)
        if not sink.send(self._last):
            return False
        self._last = b""
        self.holds -= 1
        return True

    def close(self) -> None:
        os.close(self._in)
        os.close(self._out)


def open_pipe() -> Pipe | None:
    """Return a pipe, or None where bytes are to be copied instead."""
    if not hasattr(os, "splice"):
        return None
    try:
        return Pipe()
    except OSError:
        return None


async def connect(address: Address, *, timeout_seconds: float) -> PlainSocket:
    """Open a connection. Raises OSError, TimeoutError included (trio.TooSlowError is translated)."""
    with answer_within(timeout_seconds):
        return adopt(await open_stream(address))


async def open_stream(address: Address) -> trio.SocketStream:
    """Open a connection, with no limit of time. Raises OSError."""
    (family, _, _, _, found), *others = await trio.socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    if others:
        stream = await trio.open_tcp_stream(*address)
    else:
        stream = trio.SocketStream(await _dial(family, found))
    refuse_itself(stream.socket)
    return stream


async def _dial(family: int, address: tuple[Any, ...]) -> trio.socket.SocketType:
    for patience_seconds in (*REDIAL_SECONDS, math.inf):
        sock = trio.socket.socket(family, socket.SOCK_STREAM)
        try:
            with trio.move_on_after(patience_seconds):
                await sock.connect(address)
                return sock
        except BaseException:
            sock.close()
            raise
    raise AssertionError("the last dial has no end but its own")


def refuse_itself(dialled: trio.socket.SocketType) -> None:
    """Close a socket that was connected to itself, and raise ConnectionRefusedError: nothing listens there.

    Where nothing listens on a port of this host, and the kernel happens to give that very port to the socket that dials
    it, TCP connects the socket to itself (RFC 9293, 3.5: simultaneous open). Whatever is sent would come back as an
    answer, and the leader could not listen on its port again.
    """
    try:
        to_itself = dialled.getsockname() == dialled.getpeername()
    except OSError:  # reset meanwhile, as the first read says
        to_itself = False
    if not to_itself:
        return
    # Without a reset the kernel keeps the port for another minute (TIME_WAIT).
    dialled.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
    dialled.close()
    raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


@contextlib.contextmanager
def answer_within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError, which is an OSError as trio.TooSlowError is not, if the block takes longer."""
    try:
        with trio.fail_after(seconds):
            yield
    except trio.TooSlowError as error:
        raise TimeoutError(f"no answer within {seconds:g} s") from error


def adopt(stream: trio.SocketStream) -> PlainSocket:
    """Take a dialled stream's socket out of Trio's hands."""
    return PlainSocket(detached(stream))


def detached(stream: trio.SocketStream) -> socket.socket:
    """Take a stream's socket out of Trio's hands, by its public `detach`."""
    family = socket.AddressFamily(stream.socket.family)
    return socket.socket(family, socket.SOCK_STREAM, fileno=stream.socket.detach())
