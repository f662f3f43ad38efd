"""Questions to a sidecar: each is answered, none holds up who waits, and what keeps the guard from asking is told."""

from __future__ import annotations

import http.server
import socketserver
import threading
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from lab.authority import Authority
from operating.guard.decision import Answer
from operating.guard.questions import Questions, ask_ready
from proxy.errors import ConfigurationError
from tests.serving import encrypt, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ENOUGH_SECONDS = 20.0
NOBODY = "http://127.0.0.1:9"


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


def test_nobody_there_is_an_answer_and_a_token_that_cannot_be_read_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask_ready(NOBODY) is Answer.NONE
    monkeypatch.setenv("THROTTLE_TOKEN_FILE", str(tmp_path / "missing"))
    questions = Questions(lambda: ask_ready(NOBODY))
    questions.start()
    with pytest.raises(ConfigurationError, match="missing"):
        questions.wait(ENOUGH_SECONDS)


def test_whatever_ends_the_questions_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: told.set())
    questions = Questions(lambda: Answer(1 // 0))
    questions.start()
    with pytest.raises(ConfigurationError, match="the error is above"):
        questions.wait(ENOUGH_SECONDS)
    assert told.wait(ENOUGH_SECONDS)


class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Handshakes are meant to fail here."""


@pytest.mark.parametrize("wants_certificate", [False, True], ids=["not believed", "wants a certificate"])
def test_a_sidecar_that_only_the_guard_cannot_trust_is_not_silent(
    wants_certificate: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the traffic of a healthy sidecar would be led around it, for want of an authority in guard.env."""
    authority = Authority(tmp_path / "tls")
    if wants_certificate:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    server = Server(("127.0.0.1", 0), Ready)
    encrypt(server, authority, wants_certificate=wants_certificate)
    with serving(server) as url:
        with asking(lambda: ask_ready(url.replace("http:", "https:"))) as questions:
            found = questions.wait(ENOUGH_SECONDS)
        assert found is not None
        assert found.answer is Answer.ALIVE
        assert (
            "CERTIFICATE_REQUIRED" if wants_certificate else "CERTIFICATE_VERIFY_FAILED"
        ) in found.distrust.upper().replace(" ", "_")
        if not wants_certificate:
            monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
        else:
            monkeypatch.setenv("THROTTLE_CERTIFICATE_FILE", str(authority.issue("guard.pem", ["guard"])))
        assert ask_ready(url.replace("http:", "https:")) is Answer.READY


def test_who_hangs_up_in_the_handshake_is_silent() -> None:
    """The port may be somebody else's by then, or a dying sidecar's: nobody speaks TLS there."""
    with serving(socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler)) as url:
        assert ask_ready(url.replace("http:", "https:")) is Answer.NONE
