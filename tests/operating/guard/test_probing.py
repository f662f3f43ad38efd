"""What connections prove of the ways around, and what they do not."""

from __future__ import annotations

import http.server
import socket
import socketserver
import threading
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from operating.guard.decision import Answer
from operating.guard.probing import (
    Proof,
    Prover,
    Questions,
    Target,
    ask_ready,
    assert_can_be_asked,
    dial,
    prove,
    targets,
)
from operating.guard.rules import AROUND_MARK, DIRECT_MARK
from operating.guard.ways import Detour, Ways
from proxy.config.settings import Address
from proxy.control.directory import control_path
from proxy.errors import ConfigurationError
from tests.serving import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


NEAR, FAR = Address("127.0.102.1", 9092), Address("198.18.0.12", 9092)
WAY = Target(NEAR, FAR)


@pytest.mark.parametrize(
    ("around", "directly", "expected"),
    [
        ([""], "", Proof(1)),
        (["lost", ""], "", Proof(1)),
        (["refused", "refused"], "refused", Proof(0, (f"{WAY}: refused",))),
        (["no answer", "no answer"], "", Proof(0, (), (f"{WAY}: no answer",))),
    ],
    ids=["made", "made at the second try", "the leader is down", "the leader is up, and the way leads nowhere"],
)
def test_a_way_is_blocked_only_if_its_end_answers_otherwise(around: list[str], directly: str, expected: Proof) -> None:
    dialled = []

    def fake(address: Address, mark: int) -> str:
        dialled.append((address, mark))
        return around.pop(0) if mark == AROUND_MARK else directly

    assert prove([WAY], fake) == expected
    assert {mark: address for address, mark in dialled} in (
        {AROUND_MARK: NEAR},
        {AROUND_MARK: NEAR, DIRECT_MARK: FAR},
    )


def test_many_ways_are_tried_at_once() -> None:
    """A cluster of which half is down would otherwise take minutes."""
    together = threading.Barrier(8, timeout=20)
    ways = [Target(Address("127.0.0.1", port), FAR) for port in range(1, 9)]

    def once_all_dial(*_: object) -> str:
        together.wait()
        return ""

    assert prove(ways, once_all_dial) == Proof(8)


def test_what_began_before_the_rules_changed_proves_nothing() -> None:
    first, proofs = threading.Event(), [Proof(1), Proof(2)]
    taken = iter(proofs)

    def next_proof() -> Proof:
        found = next(taken)
        if found is proofs[0]:
            first.wait(20)
        return found

    prover = Prover(next_proof)
    prover.start()
    prover.start()
    first.set()
    found = None
    while found is None:
        found = prover.take_proof()
    assert found == proofs[1]
    assert prover.take_proof() is None


def test_whom_to_dial() -> None:
    ways = Ways(
        101,
        (
            Detour("127.0.102.1", 9092, FAR, leaves_host=True),
            Detour(None, 9092, Address("127.0.0.1", 19092), leaves_host=False),
        ),
        redirected_to=15001,
        leaders=(FAR,),
    )
    assert targets(ways) == (WAY, Target(Address("127.0.0.1", 9092), Address("127.0.0.1", 19092)), Target(FAR, FAR))


def test_a_dial_says_why_it_failed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        at = Address("127.0.0.1", listener.getsockname()[1])
        assert dial(at, AROUND_MARK) == ""
    assert dial(at, AROUND_MARK) == "Connection refused"


ENOUGH_SECONDS = 20.0


@contextmanager
def asking(put: Callable[[], Answer]) -> Iterator[Questions]:
    """Questions that nobody asks any more after the block: whoever listens at their port by then is another test's."""
    over = threading.Event()

    def put_or_end() -> Answer:
        if over.is_set():
            raise ConfigurationError("the test is over")
        return put()

    questions = Questions(put_or_end)
    questions.start()
    try:
        yield questions
    finally:
        over.set()
        with suppress(ConfigurationError):
            while questions.wait(ENOUGH_SECONDS) is not None:
                pass


def test_answers_come_in_order_and_with_their_times() -> None:
    said = deque([Answer.NONE, Answer.ALIVE, Answer.READY])
    with asking(lambda: said.popleft() if said else Answer.NONE) as questions:
        found = [questions.wait(ENOUGH_SECONDS) for _ in range(3)]
    assert [each.answer for each in found if each] == [Answer.NONE, Answer.ALIVE, Answer.READY]
    times = [each.at for each in found if each]
    assert times == sorted(times)


def test_an_answer_that_never_comes_holds_up_nobody() -> None:
    never = threading.Event()
    with asking(lambda: Answer.READY if never.wait() else Answer.NONE) as questions:
        assert questions.wait(0.0) is None
        assert questions.wait(0.01) is None
        never.set()
        assert (questions.wait(ENOUGH_SECONDS) or (None,))[0] is Answer.READY


def test_whatever_ends_the_questions_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: told.set())
    questions = Questions(lambda: Answer(1 // 0))
    questions.start()
    with pytest.raises(ConfigurationError, match="the error is above"):
        questions.wait(ENOUGH_SECONDS)
    assert told.wait(ENOUGH_SECONDS)


class Pages(http.server.BaseHTTPRequestHandler):
    """Refuses, unless it is told otherwise."""

    status = 503

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""

    def address_string(self) -> str:
        return "a peer on this host"


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


@contextmanager
def answering(directory: Path, status: int) -> Iterator[None]:
    """A sidecar that says this at its private socket."""
    server = Server(str(control_path(directory)), type("Said", (Pages,), {"status": status}))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(("status", "expected"), [(200, Answer.READY), (503, Answer.ALIVE)])
def test_what_a_sidecar_says(private_sockets: Path, status: int, expected: Answer) -> None:
    with answering(private_sockets, status):
        assert ask_ready(private_sockets) is expected
    assert ask_ready(private_sockets) is Answer.NONE  # the socket is left behind, as by SIGKILL
    control_path(private_sockets).unlink()
    assert ask_ready(private_sockets) is Answer.NONE


def test_who_has_the_health_port_says_nothing(private_sockets: Path) -> None:
    """Anybody may bind it once the sidecar is dead."""
    with serving(http.server.HTTPServer(("127.0.0.1", 0), type("Well", (Pages,), {"status": 200}))):
        assert ask_ready(private_sockets) is Answer.NONE


@pytest.mark.parametrize("status", [200, 401])
def test_a_sidecar_that_runs_and_cannot_be_asked_is_not_taken_for_dead(private_sockets: Path, status: int) -> None:
    """Its private socket is elsewhere, or it could not make one."""
    with serving(http.server.HTTPServer(("127.0.0.1", 0), type("Runs", (Pages,), {"status": status}))) as url:
        with pytest.raises(ConfigurationError, match=r"name its directory in proxy\.toml"):
            assert_can_be_asked(private_sockets, url)
        with answering(private_sockets, 503):
            assert_can_be_asked(private_sockets, url)
    control_path(private_sockets).unlink()
    assert_can_be_asked(private_sockets, url)  # nobody runs
