"""Prometheus is asked in threads; the way over HTTP is a real one."""

from __future__ import annotations

import contextlib
import http.server
import socket
import socketserver
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
import trio

from lab.host.addresses import held_ports
from proxy.quotas.query_signals import QuerySignal
from proxy.rates import querying
from proxy.rates.query_state import GRACE_SECONDS
from proxy.rates.querying import Querying, ask_prometheus
from tests.proxy.recorded_log import RecordedLog
from tests.serving import serving

from .test_query_state import vector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trio.testing import MockClock

SIGNAL = QuerySignal("p99", "http://127.0.0.1:9", 'max(p99{a="b c"})', 0.05)


@contextmanager
def prometheus(status: int, content: bytes, headers: dict[str, str] | None = None) -> Iterator[tuple[str, list[str]]]:
    """A server that always answers this; its URL, and what was asked."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        yield url, asked


def at(url: str) -> QuerySignal:
    return QuerySignal(SIGNAL.name, url, SIGNAL.query, SIGNAL.target)


def test_the_query_is_asked_as_it_is_written() -> None:
    with prometheus(200, vector("0.1")) as (url, asked):
        assert ask_prometheus(at(f"{url}/prefix")) == vector("0.1")
    parts = urlsplit(asked[0])
    assert (parts.path, parse_qs(parts.query)) == ("/prefix/api/v1/query", {"query": [SIGNAL.query]})


def test_a_refusal_is_read_and_a_redirect_is_not_followed() -> None:
    refusal = b'{"status":"error","error":"parse error"}'
    with prometheus(400, refusal) as (url, _):
        assert ask_prometheus(at(url)) == refusal
    with prometheus(200, vector("0.1")) as (elsewhere, asked):
        redirect = prometheus(302, b"", {"Location": elsewhere})
        with redirect as (url, _):
            assert ask_prometheus(at(url)) == b""
    assert asked == []


def test_nobody_there_is_an_error() -> None:
    with held_ports(1) as (port,), pytest.raises(OSError, match="refused"):
        ask_prometheus(at(f"http://127.0.0.1:{port}"))


@contextmanager
def somebody_else(answer: bytes) -> Iterator[str]:
    """Whoever listens there, and says this to whatever it is asked; the URL."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(answer)

    with serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)) as url:
        yield url


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "BadStatusLine: SSH-2.0-OpenSSH_9.2"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n{", "IncompleteRead"),
        (b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n{", "IncompleteRead"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n", "got more than 100 headers"),
    ],
)
def test_an_answer_that_is_no_http_is_an_error_like_no_answer(answer: bytes, told: str) -> None:
    """Anything else would end the task that asks for every signal."""
    with somebody_else(answer) as url, pytest.raises(OSError, match=f"expected an answer over HTTP: .*{told}"):
        ask_prometheus(at(url))


class Answers:
    """What the next queries get; an exception is raised."""

    def __init__(self, *answers: bytes | OSError) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, _: QuerySignal) -> bytes:
        self.asked += 1
        answer = self.answers[min(self.asked, len(self.answers)) - 1]
        if isinstance(answer, OSError):
            raise answer
        return answer


async def until_asked(answers: Answers, times: int, clock: MockClock) -> None:
    """Let the time between two queries pass, in jumps, until so many have been answered."""
    while True:
        await trio.testing.wait_all_tasks_blocked(0.02)
        if answers.asked >= times:
            return
        clock.jump(querying.QUERY_SECONDS)


async def test_a_signal_that_is_lost_is_told_once_and_once_when_it_is_back(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    log = RecordedLog()
    answers = Answers(vector("0.1"), *[OSError("no route")] * 6, vector("NaN"), vector("0.02"))
    asking = Querying(log, answers)
    nursery.start_soon(asking.run)
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert answers.asked == 0
    asking.want((SIGNAL,), trio.current_time())
    await until_asked(answers, 1, mock_clock)
    assert [reading.pressure for reading in asking.readings()] == [pytest.approx(2)]
    await until_asked(answers, 8, mock_clock)
    assert trio.current_time() > GRACE_SECONDS
    assert "p99 is lost" in asking.lost(trio.current_time())["p99"]
    await until_asked(answers, 9, mock_clock)
    assert asking.readings()[0].pressure == pytest.approx(0.4)
    assert log.events == ["auto_signal_lost", "auto_signal_back"]
    assert log.lines[0]["error"] == "p99 is lost: http://127.0.0.1:9: no route"
    asking.want((), trio.current_time())
    assert (asking.readings(), asking.lost(1e9)) == ([], {})


async def test_what_is_asked_for_already_is_not_begun_anew(nursery: trio.Nursery, mock_clock: MockClock) -> None:
    answers = Answers(vector("0.1"))
    asking = Querying(RecordedLog(), answers)
    nursery.start_soon(asking.run)
    asking.want((SIGNAL,), 0.0)
    await until_asked(answers, 1, mock_clock)
    other = QuerySignal("other", SIGNAL.url, "1", 1)
    asking.want((SIGNAL, other), 5.0)
    assert [reading.pressure for reading in asking.readings()] == [pytest.approx(2), 0]


async def test_signals_that_hang_keep_no_other_from_being_asked(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that sends a byte now and then holds its question's thread for as long as it likes."""
    monkeypatch.setattr(querying, "QUERY_SECONDS", 0.01)
    monkeypatch.setattr(querying, "TIMEOUT_SECONDS", 0.02)
    over, answered = threading.Event(), []

    def ask(signal: QuerySignal) -> bytes:
        if signal.name != SIGNAL.name:
            over.wait()
        answered.append(signal.name)
        return vector("0.1")

    asks = Querying(RecordedLog(), ask)
    hanging = [QuerySignal(f"hangs{number}", "http://127.0.0.1:9", "up", 1.0) for number in range(10)]
    asks.want([*hanging, SIGNAL], trio.current_time())
    nursery.start_soon(asks.run)
    with trio.fail_after(30):
        while len(answered) < 3:  # noqa: ASYNC110 - threads answer, which set no event of Trio's
            await trio.sleep(0.01)
    over.set()
    assert set(answered[:3]) == {SIGNAL.name}


@pytest.mark.parametrize(
    "begins",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
        b"HTTP/1.1 503 Busy\r\nContent-Length: 1000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: ",
        b"",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n",
    ],
)
def test_an_answer_that_trickles_is_given_up(begins: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time-out is of each piece: headers, or the reason of a refusal, byte by byte held the thread for ever."""
    monkeypatch.setattr(querying, "TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def trickle() -> None:
            sock, _ = listener.accept()
            with sock, contextlib.suppress(OSError):
                sock.recv(4096)
                sock.sendall(begins)
                for _ in range(500):
                    sock.sendall(b" ")
                    time.sleep(0.02)

        thread = threading.Thread(target=trickle)
        thread.start()
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="all of the answer"):
            ask_prometheus(at(f"http://127.0.0.1:{listener.getsockname()[1]}"))
        assert time.monotonic() - began < 8  # what it sends takes 10 s
        thread.join()
