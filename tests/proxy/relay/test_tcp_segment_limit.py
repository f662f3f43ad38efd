"""Peers with small windows get packets that always fit; all others what the kernel makes of it."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import socket
import struct
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from proxy.relay.transfer import Transfer, Window
from proxy.relay.transport import (
    PIPE_BYTES,
    SEGMENT_BYTES,
    SPARED,
    Pipe,
    PlainSocket,
    bound_segments,
    needs_short_packets,
)

if TYPE_CHECKING:
    from pathlib import Path

KAFKAS, WIDE = 64 * 1024, 256 * 1024
"""replica.socket.receive.buffer.bytes, and a buffer whose window scales beyond 128 KiB."""
SIZE = 40 * PIPE_BYTES
FOREVER = 1e12
PIECES, PIECE_BYTES, ROUNDS = 60, (500, 1000, 1500, 3000), 60


def dialled(listener: socket.socket, receive_buffer: int | None) -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection from a peer with this buffer; None: one that the kernel sizes."""
    peer = socket.socket()
    if receive_buffer is not None:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    peer.connect(listener.getsockname())
    return peer, listener.accept()[0]


@pytest.mark.parametrize(
    ("buffer", "bounded", "short"),
    [(KAFKAS, False, True), (KAFKAS, True, False), (None, False, False), (WIDE, False, False)],
)
def test_packets_are_bounded_for_small_windows_and_long_segments(
    buffer: int | None, bounded: bool, short: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        if bounded:
            bound_segments(listener)
        peer, accepted = dialled(listener, buffer)
        with peer, accepted:
            assert needs_short_packets(accepted) is short
            assert (accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) <= SEGMENT_BYTES) is bounded


def test_a_socket_that_is_not_tcp_has_no_bound() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert not needs_short_packets(one)


@pytest.mark.parametrize("splices", [True, False], ids=["spliced", "copied"])
def test_no_packet_to_a_small_window_is_longer_and_all_arrives(splices: bool) -> None:
    """Without a bound segments grow to half of 128 KiB here, which is 64 KiB."""
    data = bytes(range(251)) * (SIZE // 251)
    came = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        feeder, source = dialled(listener, None)
        peer, accepted = dialled(listener, KAFKAS)
        sink = PlainSocket(accepted)
        between = Transfer(PlainSocket(source), sink, Window(256 * 1024), count=lambda _: None, splices=splices)
        between.turn_ends = FOREVER
        reading = threading.Thread(target=_read, args=(peer, len(data), came))
        with feeder, peer, closing(sink), closing(between.source), closing(between):
            threading.Thread(target=feeder.sendall, args=(data,), daemon=True).start()
            reading.start()
            wait = between.send(len(data))
            while wait is not None:
                between.source.readable = True
                wait = between.flush()
            reading.join(20)
            assert bytes(came) == data
            segment_bytes = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
            assert segment_bytes > 2 * SEGMENT_BYTES
            assert len(data) / _packets(accepted) <= segment_bytes - segment_bytes // SPARED


def test_a_packet_whose_last_byte_finds_no_room_is_sent_without_it(tmp_path: Path) -> None:
    """Of the pieces of pages that a broker sends from its log the kernel joins 17. The last byte of a packet then needs
    a buffer of its own, for which there is no room while the others wait for it."""
    log = tmp_path / "log"
    log.write_bytes(bytes(PIECES * 2 * mmap.PAGESIZE))
    with socket.create_server(("127.0.0.1", 0)) as listener, log.open("rb") as file:
        feeder, source = dialled(listener, None)
        peer, accepted = dialled(listener, KAFKAS)
        pipe, reads, sink = Pipe(), PlainSocket(source), PlainSocket(accepted)
        with feeder, peer, closing(pipe), closing(reads), closing(sink):
            peer.settimeout(0)
            for piece_bytes in sorted(PIECE_BYTES * ROUNDS):  # segments grow meanwhile
                for number in range(PIECES):
                    os.sendfile(feeder.fileno(), file.fileno(), 2 * number * mmap.PAGESIZE + 100, piece_bytes)
                left = PIECES * piece_bytes
                while left or pipe.holds:
                    reads.readable = True
                    left -= max(pipe.fill(reads, left), 0) if left else 0
                    pipe.drain(sink)
                    with contextlib.suppress(BlockingIOError):
                        while peer.recv(1 << 20):
                            pass
                    assert _unsent(accepted) == 0, "nothing is in flight, and the kernel keeps bytes"


def _unsent(sock: socket.socket) -> int:
    """Return how many bytes the kernel has not sent yet (SIOCOUTQNSD of linux/sockios.h)."""
    (size,) = struct.unpack("i", fcntl.ioctl(sock.fileno(), 0x894B, bytes(4)))
    return int(size)


def _read(peer: socket.socket, size: int, came: bytearray) -> None:
    peer.settimeout(20)
    while len(came) < size:
        came += peer.recv(1 << 20)


def _packets(sock: socket.socket) -> int:
    """Return tcpi_data_segs_out of struct tcp_info."""
    (packets,) = struct.unpack_from("=I", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), 156)
    return int(packets)
