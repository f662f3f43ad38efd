"""How long the segments are that TCP sends to those who dial: short for peers with small windows, and for them alone.

On loopback Linux sends segments of half the widest window that a peer has ever announced. What a peer announces varies
by some percent (skb->truesize), so a fetcher with Kafka's default buffer of 64 KiB
(replica.socket.receive.buffer.bytes) now and then has a little less room than one segment needs. Then the kernel sends
no part of it, hears of no more room, and tries again after 200 ms: 9 such waits in 3600 answers of 1 MB in pieces of
odd sizes, none with shorter segments. A peer whose window scales to 128 KiB or more cannot get there. To it, short
segments would cost: 1.15 to 1.7 of the CPU per byte.

The length of a connection's segments is fixed by the listener before anything is known of the peer. So a listener
starts with short ones, which suit a local broker, and learns from those it accepts.
"""

from __future__ import annotations

import socket
import struct
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import trio

SHORT_BYTES = 16_300
"""The longest segment for a small window. Four of these fill a packet of 64 KiB on loopback; of 16 KiB only three fit,
for a tenth less throughput. A network card's own segments are shorter."""
PIECE_BYTES = 48 * 1024
"""What a peer with a small window gets at once where segments are long: a packet of its own, and shorter than half a
window, which suffices if windows vary by less than a fourth."""
SMALL_WINDOW_SCALE = 1
"""The window scale of a peer whose window stays below 128 KiB (RFC 7323: 65535 << 1)."""
_INFO = struct.Struct("=6xB9xI")
"""The window scales and tcpi_snd_mss of struct tcp_info."""


class _Known(NamedTuple):
    has_small_window: bool
    segment_bytes: int


def _known(sock: socket.socket | trio.socket.SocketType) -> _Known | None:
    """None where the system does not tell, or it is no TCP connection any more."""
    if sys.platform != "linux":
        return None
    try:
        scales, segment_bytes = _INFO.unpack(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size))
    except (OSError, struct.error):
        return None
    theirs = scales >> 4 if sys.byteorder == "big" else scales & 15
    return _Known(theirs <= SMALL_WINDOW_SCALE, segment_bytes)


def piece_bytes(accepted: socket.socket) -> int:
    """How much may be written to this peer at once; 0: any amount."""
    known = _known(accepted)
    return PIECE_BYTES if known is not None and known.has_small_window and known.segment_bytes > SHORT_BYTES else 0


def shorten(listener: socket.socket | trio.socket.SocketType, *, short: bool = True) -> None:
    """Bound the segments of connections that are accepted from now on, or let them be as long as the network allows."""
    if sys.platform == "linux":
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SHORT_BYTES if short else 0)


class Segments:
    """What one listener has learnt. A peer with a small window makes its segments short for good."""

    __slots__ = ("_decided", "_listener", "_short")

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._short = True
        self._decided = False

    def learn(self, accepted: socket.socket | trio.socket.SocketType) -> None:
        """Raises OSError: the listener is closed."""
        if self._decided or (known := _known(accepted)) is None:
            return
        self._decided = known.has_small_window
        if self._short is not known.has_small_window:
            self._short = known.has_small_window
            shorten(self._listener, short=self._short)
