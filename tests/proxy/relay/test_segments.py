"""Segments are short for peers with small windows, long for all others."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from proxy.relay.segments import PIECE_BYTES, SHORT_BYTES, Segments, piece_bytes, shorten
from proxy.relay.transport import PlainSocket

KAFKAS, WIDE = 64 * 1024, 256 * 1024
"""replica.socket.receive.buffer.bytes, and a buffer whose window scales beyond 128 KiB."""


def dialled(listener: socket.socket, receive_buffer: int | None) -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection from a peer with this buffer; None: one that the kernel sizes."""
    peer = socket.socket()
    if receive_buffer is not None:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    peer.connect(listener.getsockname())
    return peer, listener.accept()[0]


def segment_bytes(listener: socket.socket, receive_buffer: int | None, segments: Segments | None = None) -> int:
    peer, accepted = dialled(listener, receive_buffer)
    with peer, accepted:
        if segments is not None:
            segments.learn(accepted)
        return accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)


@pytest.mark.parametrize("buffer", [None, WIDE])
def test_after_a_peer_with_a_wide_window_segments_are_as_long_as_without_us(buffer: int | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain, socket.create_server(("127.0.0.1", 0)) as listener:
        shorten(listener)
        segments = Segments(listener)
        assert segment_bytes(listener, buffer, segments) <= SHORT_BYTES
        assert segment_bytes(listener, buffer, segments) == segment_bytes(plain, buffer) > SHORT_BYTES


def test_a_peer_with_a_small_window_makes_them_short_for_good() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        shorten(listener)
        segments = Segments(listener)
        segment_bytes(listener, None, segments)
        assert segment_bytes(listener, KAFKAS, segments) > SHORT_BYTES, "the first, which gets pieces instead"
        assert segment_bytes(listener, None, segments) <= SHORT_BYTES
        assert segment_bytes(listener, KAFKAS, segments) <= SHORT_BYTES


@pytest.mark.parametrize(
    ("buffer", "short", "most"),
    [(KAFKAS, False, PIECE_BYTES), (KAFKAS, True, 0), (None, False, 0), (WIDE, False, 0)],
)
def test_pieces_are_for_small_windows_and_long_segments(buffer: int | None, short: bool, most: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        shorten(listener, short=short)
        peer, accepted = dialled(listener, buffer)
        with peer, accepted:
            assert piece_bytes(accepted) == most


def test_a_socket_that_is_not_tcp_gets_no_pieces() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert piece_bytes(one) == 0


def test_what_is_sent_in_pieces_arrives_whole() -> None:
    data = bytes(range(256)) * 4000
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer, accepted = dialled(listener, KAFKAS)
        with peer, closing(PlainSocket(accepted, piece_bytes=PIECE_BYTES)) as sends:
            assert not sends.splices
            peer.settimeout(10)
            left, came = memoryview(data), bytearray()
            while len(came) < len(data):
                left = left[sends.send(left) :] if left else left
                came += peer.recv(100_000)
            assert came == data
