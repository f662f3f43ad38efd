"""What goes through a TLS socket is what came, however it is cut; and nothing else ever does."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import ssl
import struct
import threading
from typing import TYPE_CHECKING

import pytest

from proxy.relay.tls_socket import ANY_EVENT, TlsSocket
from proxy.relay.transport import WOULD_WAIT

from ..tls.stage import NAME, Keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB = 1 << 20


class Ends:
    def __init__(self, keys: Keys, version: ssl.TLSVersion) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            dialled = socket.create_connection(listener.getsockname())
            accepted, _ = listener.accept()
        server, client = keys.server(), keys.client()
        server.maximum_version = version
        found: list[ssl.SSLSocket] = []
        shaking = threading.Thread(target=lambda: found.append(server.wrap_socket(accepted, server_side=True)))
        shaking.start()
        self.peer = client.wrap_socket(dialled, server_hostname=NAME)
        shaking.join()
        self.peer.settimeout(5)
        found[0].settimeout(0)
        self.refusals: list[ssl.SSLError] = []
        self.own = TlsSocket(found[0], self.refusals.append)
        self.own_tcp = found[0]

    def read(self, size: int) -> bytes:
        """As a direction does: until it would wait, then when the kernel says there is more."""
        got, space = bytearray(), memoryview(bytearray(300_000))
        while len(got) < size:
            received = self.own.receive_into(space)
            if received == 0:
                break
            if received == WOULD_WAIT:
                assert not self.own.readable
                assert select.select([self.own.fileno()], [], [], 5)[0]
                self.own.readable = True
            else:
                got += space[:received]
        return bytes(got)

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            sent = self.own.send(left)
            left = left[sent:]
            if not sent:
                assert select.select([], [self.own.fileno()], [], 5)[1]


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ends]:
    made = Ends(Keys(tmp_path / "tls"), request.param)
    yield made
    made.own.close()
    made.peer.close()


def test_records_are_read_until_openssl_wants_more(ends: Ends) -> None:
    data = random.Random(1).randbytes(3 * MIB)
    sending = threading.Thread(target=ends.peer.sendall, args=(data,))
    sending.start()
    assert ends.read(len(data)) == data
    sending.join()


def test_a_record_is_not_forgotten_because_less_than_all_of_it_was_asked_for(ends: Ends) -> None:
    """Once OpenSSL has a record the kernel says no more that there is something: `readable` has to."""
    ends.peer.sendall(b"x" * 16_000)
    assert select.select([ends.own.fileno()], [], [], 5)[0]
    small = memoryview(bytearray(10))
    assert ends.own.receive_into(small) == 10
    assert not select.select([ends.own.fileno()], [], [], 0)[0]
    assert ends.own.readable
    assert ends.read(15_990) == b"x" * 15_990
    assert ends.own.receive_into(small) == WOULD_WAIT
    assert not ends.own.readable


def test_what_was_not_taken_is_given_again_and_arrives_once(ends: Ends) -> None:
    data = random.Random(2).randbytes(5 * MIB)
    got = bytearray()

    def receive() -> None:
        while len(got) < len(data):
            got.extend(ends.peer.recv(65_536))

    receiving = threading.Thread(target=receive)
    receiving.start()
    ends.write(data)
    receiving.join(timeout=20)
    assert got == data


def test_there_is_no_room_while_the_peer_does_not_read(ends: Ends) -> None:
    data = memoryview(bytes(64 * MIB))
    sent = ends.own.send(data)
    assert 0 < sent < len(data)
    assert ends.own.send(data[sent:]) == 0


def test_records_that_are_written_together_leave_together(ends: Ends) -> None:
    """By the kernel's own count of packets (struct tcp_info): sixteen records of 16 KiB, packets of up to 64 KiB."""
    ends.own_tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data = bytes(256 * 1024)
    for _ in range(3):  # packets are that large once the connection's windows have opened
        before = packets_sent(ends.own_tcp)
        assert ends.own.send(data) == len(data)
        packets = packets_sent(ends.own_tcp) - before
        received = 0
        while received < len(data):
            received += len(ends.peer.recv(65_536))
    assert packets <= 8


def test_nothing_is_held_back_once_there_is_no_more_room(ends: Ends) -> None:
    ends.own.send(bytes(64 * MIB))
    assert not ends.own_tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_CORK)


def packets_sent(sock: socket.socket) -> int:
    """`tcpi_segs_out` of Linux's struct tcp_info."""
    (segments,) = struct.unpack_from("=I", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), 136)
    return int(segments)


def test_the_end_is_the_end_for_ever(ends: Ends) -> None:
    ends.peer.sendall(b"last")
    with contextlib.suppress(OSError):
        ends.peer.settimeout(0)
        ends.peer.unwrap()
    assert ends.read(100) == b"last"
    space = memoryview(bytearray(10))
    assert ends.own.receive_into(space) == 0
    # Whatever the peer writes on its TCP connection now has not passed OpenSSL.
    with contextlib.suppress(OSError):
        socket.socket.send(ends.peer, b"in plaintext")
    assert ends.own.receive_into(space) == 0


def test_after_half_a_close_nothing_is_read_in_plaintext(ends: Ends) -> None:
    ends.own.finish_sending()
    ends.peer.sendall(b"still encrypted")
    assert ends.read(15) == b"still encrypted"
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        assert ends.peer.recv(10) == b""


def test_a_peer_that_vanishes_in_mid_record_is_an_end(ends: Ends) -> None:
    ends.peer.sendall(b"whole")
    assert ends.read(5) == b"whole"
    # A record's head that promises 4 KiB, and a part of it.
    socket.socket.send(ends.peer, b"\x17\x03\x03\x10\x00half")
    # Closed with session tickets unread, the socket would be reset.
    socket.socket.shutdown(ends.peer, socket.SHUT_WR)
    assert ends.read(10) == b""


def test_a_record_that_was_tampered_with_is_an_error_and_stays_one(ends: Ends) -> None:
    ends.peer.sendall(b"good")
    assert ends.read(4) == b"good"
    socket.socket.send(ends.peer, b"\x17\x03\x03\x00\x20" + bytes(32))
    assert select.select([ends.own.fileno()], [], [], 5)[0]
    for _ in range(2):
        with pytest.raises(ssl.SSLError):
            ends.own.receive_into(memoryview(bytearray(100)))
    assert ends.refusals == []


def test_what_came_before_an_error_is_given_first(ends: Ends) -> None:
    ends.peer.sendall(b"good")
    socket.socket.send(ends.peer, b"\x17\x03\x03\x00\x20" + bytes(32))
    assert select.select([ends.own.fileno()], [], [], 5)[0]
    space = memoryview(bytearray(100))
    assert ends.own.receive_into(space) == 4
    with pytest.raises(ssl.SSLError):
        ends.read(1)


def test_an_error_before_anything_came_is_told(ends: Ends) -> None:
    socket.socket.send(ends.peer, b"\x17\x03\x03\x00\x20" + bytes(32))
    assert select.select([ends.own.fileno()], [], [], 5)[0]
    with pytest.raises(ssl.SSLError):
        ends.own.receive_into(memoryview(bytearray(100)))
    assert len(ends.refusals) == 1


def test_a_refusal_is_told_although_the_peer_hung_up_before_it_was_read(ends: Ends) -> None:
    socket.socket.send(ends.peer, b"\x17\x03\x03\x00\x20" + bytes(32))
    ends.peer.close()

    def sends_on() -> None:
        for _ in range(1000):
            ends.own.send(b"a fetch")

    with pytest.raises((ssl.SSLError, ConnectionError)):
        sends_on()
    assert len(ends.refusals) == 1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ends.own.receive_into(memoryview(bytearray(100)))


class Crossing:
    """What OpenSSL says when it needs the other direction: rare, so it is said here."""

    family = socket.AF_INET

    def __init__(self, says: Exception) -> None:
        self._says = says

    def fileno(self) -> int:
        return 0

    def recv_into(self, _: memoryview) -> int:
        raise self._says

    def send(self, _: memoryview) -> int:
        raise self._says


def test_a_read_that_has_to_write_is_woken_by_either() -> None:
    own = TlsSocket(Crossing(ssl.SSLWantWriteError()))
    assert own.receive_into(memoryview(bytearray(10))) == WOULD_WAIT
    assert (own.readable, own.crossed) == (False, ANY_EVENT)


def test_a_write_that_has_to_read_is_woken_by_either() -> None:
    own = TlsSocket(Crossing(ssl.SSLWantReadError()))
    assert own.send(b"x") == 0
    assert (own.readable, own.crossed) == (True, ANY_EVENT)


def test_nothing_is_looked_at_before_it_is_read(ends: Ends) -> None:
    assert not ends.own.splices
    with pytest.raises(OSError, match="encrypted"):
        ends.own.peek_into(memoryview(bytearray(1)))
