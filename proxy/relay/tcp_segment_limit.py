"""Bounds the packets that peers with small windows are sent: no wait of 200 ms in the middle of an answer.

On loopback Linux sends segments of half the widest window that a peer has ever announced. What a peer announces varies
by some percent (skb->truesize), so a fetcher with Kafka's default buffer of 64 KiB
(replica.socket.receive.buffer.bytes) now and then has a little less room than one segment needs, and announces more
only once that doubles its window. Then nothing moves until the kernel probes, after 200 ms; TCP_RTO_MIN_US does not
shorten that. Packets below half of the narrowest window always fit. A peer whose window scales to 128 KiB or more
cannot get there.

What is relayed unencrypted is cut into packets by `transport`. OpenSSL writes by itself, so where a peer is to be
spoken to in TLS the listener bounds the segments, before anything is known of the peer: to the relay of plain bytes
that would cost up to half of the throughput.
"""

from __future__ import annotations

import socket
import struct
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import trio

SPARED = 8
"""Packets are shorter than segments by one part of so many: they always fit while windows vary by less than that."""
SEGMENT_BYTES = 16_300
"""The longest segment in TLS. Four of these fill a packet of 64 KiB on loopback; of 16 KiB only three fit, for a tenth
less throughput. A network card's own segments are shorter, and need no bound of either kind."""
SMALL_WINDOW_SCALE = 1
"""The window scale of a peer whose window stays below 128 KiB (RFC 7323: 65535 << 1)."""
_INFO = struct.Struct("=6xB9xI")
"""The window scales and tcpi_snd_mss of struct tcp_info."""


def needs_short_packets(connected: socket.socket) -> bool:
    """Return whether this peer has a small window, and segments that can fill half of it."""
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
    """Bound the segments of the connections that are accepted from now on."""
    if sys.platform == "linux":
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
