from __future__ import annotations

import io
import json
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

import pytest

from lab.measuring.tap import Doing, Link, Recorder, serve

from ..fetch_bytes import request, response

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def tapped() -> Iterator[tuple[socket.socket, socket.socket, io.StringIO]]:
    """(follower's end, leader's end, what the tap wrote)."""
    sink = io.StringIO()
    with socket.create_server(("127.0.0.1", 0)) as leader:
        probe = socket.create_server(("127.0.0.1", 0))
        place = probe.getsockname()
        probe.close()
        listener = serve(Link(101, place, leader.getsockname()), Recorder(sink))
        follower = socket.create_connection(place)
        accepted, _ = leader.accept()
        with listener, follower, accepted:
            yield follower, accepted, sink
            listener.shutdown(socket.SHUT_RDWR)


def received(end: socket.socket, size: int) -> bytes:
    with end.makefile("rb") as stream:
        return stream.read(size)


def lines(sink: io.StringIO, count: int) -> list[dict[str, object]]:
    deadline = time.monotonic() + 5
    while len(sink.getvalue().splitlines()) < count and time.monotonic() < deadline:
        time.sleep(0.001)
    return [json.loads(line) for line in sink.getvalue().splitlines()]


def test_every_byte_passes_and_fetches_are_written_down(
    tapped: tuple[socket.socket, socket.socket, io.StringIO],
) -> None:
    follower, leader, sink = tapped
    asked, answered = request(3, 1), response(3, 1, {"orders": [(0, b"r" * 3_000_000), (1, b"s")]})
    follower.sendall(asked)
    assert received(leader, len(asked)) == asked
    sender = threading.Thread(target=leader.sendall, args=(answered,))
    sender.start()
    assert received(follower, len(answered)) == answered
    sender.join()
    first, second = lines(sink, 2)
    assert (first["kind"], first["leader"], first["follower"], first["version"]) == ("request", 101, 102, 3)
    assert second["partitions"] == [["orders", 0, 3_000_000], ["orders", 1, 1]]
    assert second["bytes"] == len(answered)
    assert abs(float(str(second["t"])) - time.monotonic()) < 5


def test_consumers_are_not_written_down(tapped: tuple[socket.socket, socket.socket, io.StringIO]) -> None:
    follower, leader, sink = tapped
    consumer, replica = request(3, 1, replica=-1), request(3, 2)
    follower.sendall(consumer + replica)
    assert received(leader, len(consumer + replica)) == consumer + replica
    assert [line["follower"] for line in lines(sink, 1)] == [102]


def test_what_is_not_kafka_passes_and_is_told_once(
    tapped: tuple[socket.socket, socket.socket, io.StringIO],
) -> None:
    follower, leader, sink = tapped
    follower.sendall(request(3, 1))
    received(leader, len(request(3, 1)))
    lie = struct.pack(">iiii", 1000, 1, 0, -5)
    for _ in range(3):
        leader.sendall(lie)
        assert received(follower, len(lie)) == lie
    assert [line["kind"] for line in lines(sink, 2)] == ["request", "undecoded"]


def test_a_close_reaches_the_other_end(tapped: tuple[socket.socket, socket.socket, io.StringIO]) -> None:
    follower, leader, _ = tapped
    leader.shutdown(socket.SHUT_RDWR)
    follower.settimeout(5)
    assert follower.recv(1) == b""


@pytest.mark.parametrize("text", ["101=127.0.0.1:9092@127.0.0.2:9093"])
def test_links_are_written_as_they_are_read(text: str) -> None:
    assert str(Link.parse(text)) == text


@pytest.mark.parametrize("text", ["", "101", "x=a:1@b:2", "101=a:1"])
def test_other_links_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        Link.parse(text)


def test_a_request_is_garbled_when_it_is_wished_for_and_only_one(tmp_path: Path) -> None:
    wish, sink = tmp_path / "garble", io.StringIO()
    with socket.create_server(("127.0.0.1", 0)) as leader, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        place = taken.getsockname()
        taken.close()
        listener = serve(Link(101, place, leader.getsockname()), Recorder(sink), Doing(garble=wish))
        with listener, socket.create_connection(place) as follower, leader.accept()[0] as accepted:
            for number, garbled in enumerate((False, True, False)):
                if garbled:
                    wish.touch()
                asked = request(17, number)
                follower.sendall(asked)
                expected = asked[:6] + b"\0c" + asked[8:] if garbled else asked
                assert received(accepted, len(asked)) == expected
                assert not wish.exists()
            listener.shutdown(socket.SHUT_RDWR)
    assert [line["kind"] for line in lines(sink, 4)] == ["request", "request", "garbled", "request"]
