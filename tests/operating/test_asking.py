"""Commands ask a sidecar whose every page wants a token, if they are told where it is."""

from __future__ import annotations

import contextlib
import http.server
import ipaddress
import itertools
import socketserver
import ssl
import time
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from cryptography import x509

from lab.brokers.authority import Authority
from operating.asking import CERTIFICATE_FILE, TOKEN_FILE, DistrustError, RefusedError, ask, send
from operating.fleet.members import members
from proxy.errors import ConfigurationError, UnreachableError
from tests.proxy.tls.stage import Keys
from tests.serving import encrypt, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "0123456789abcdef"


class Guarded(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        let_in = self.headers["Authorization"] == f"Bearer {TOKEN}"
        self.send_response(200 if let_in else 401)
        self.end_headers()
        self.wfile.write(b"in" if let_in else b"out")

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


@pytest.fixture
def url() -> Iterator[str]:
    with serving(http.server.HTTPServer(("127.0.0.1", 0), Guarded)) as url:
        yield url


def test_the_token_comes_from_the_file_that_the_environment_names(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnreachableError, match="401: out"):
        ask(url, "/throttle")
    monkeypatch.setenv(TOKEN_FILE, str(tmp_path / "token"))
    with pytest.raises(ConfigurationError, match="token: cannot be read"):
        ask(url, "/throttle")
    (tmp_path / "token").write_text(TOKEN + "\n")
    assert ask(url, "/throttle") == b"in"


@pytest.mark.parametrize("content", [b"geheim-0123456789\nthe-one-before-it\n", b"geheim \xff", b""])
def test_what_is_not_one_token_is_never_shown(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """With two lines in the file `http.client` refuses the header, and shows it."""
    (tmp_path / "token").write_bytes(content)
    monkeypatch.setenv(TOKEN_FILE, str(tmp_path / "token"))
    with pytest.raises(ConfigurationError, match=f"^{TOKEN_FILE}: .*token: expected one token") as raised:
        ask(url, "/throttle")
    assert "geheim" not in str(raised.value)
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(f'token_file = "token"\n[[sidecars]]\nbroker = 101\nurl = "{url}"\n')
    with pytest.raises(ConfigurationError, match=r"token: expected one token") as raised:
        members((), fleet)
    assert "geheim" not in str(raised.value)


def test_authorities_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the sidecar nor the certificate that is shown to it is what is wrong."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    own = Authority(tmp_path / "tls").issue("operator.pem", ["operator"])
    for _ in range(2):
        with pytest.raises(
            ConfigurationError, match=r"^SSL_CERT_FILE: .*ca\.pem: expected certificates .*No such file"
        ):
            ask("https://127.0.0.1:1", "/throttle")
        monkeypatch.setenv(CERTIFICATE_FILE, str(own))
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigurationError, match=r"^SSL_CERT_FILE: .*ca\.pem: expected certificates"):
        ask("https://127.0.0.1:1", "/throttle")


def test_a_certificate_that_cannot_be_shown_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CERTIFICATE_FILE, str(tmp_path / "operator.pem"))
    with pytest.raises(ConfigurationError, match=r"operator\.pem: expected a certificate .* No such file"):
        ask("https://127.0.0.1:1", "/throttle")
    (tmp_path / "operator.pem").write_text("no certificate")
    with pytest.raises(ConfigurationError, match=r"operator\.pem: expected a certificate and its key as PEM"):
        ask("https://127.0.0.1:1", "/throttle")


def answering(begins: bytes, then: bytes) -> type[socketserver.StreamRequestHandler]:
    """Whoever asks is answered this, and then that for as long as anybody listens; silence if it is empty."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                self.connection.recv(65536)
                self.connection.sendall(begins)
                while then:
                    self.connection.sendall(then)
                    time.sleep(0.02)
                self.connection.recv(1)

    return Handler


@contextmanager
def answered(begins: bytes, then: bytes = b"") -> Iterator[str]:
    with serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), answering(begins, then))) as url:
        yield url


OK, REFUSED = b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 503 No\r\n"
PATIENT_SECONDS = 30.0
"""Of a request whose answer comes at once, in pieces: how long a busy machine takes for one says nothing of us."""


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty seconds pass with each look at the clock by which a whole answer is given up; a piece is waited for by the
    machine's own."""
    clock = itertools.count(step=20)
    monkeypatch.setattr("operating.http_client.time", SimpleNamespace(monotonic=lambda: next(clock)))


@pytest.mark.parametrize(
    ("begins", "then"),
    [
        (b"", b"H"),
        (OK, b"X"),
        (OK, b"X-Header: 1\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (OK + b"\r\n", b" "),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ],
)
def test_an_answer_that_never_ends_is_given_up(begins: bytes, then: bytes, hurried: None) -> None:
    """Or one sidecar would hold up the table of all. A time-out of the socket is of each piece."""
    with answered(begins, then) as url, pytest.raises(UnreachableError, match="no answer from a sidecar: ") as raised:
        ask(url, "/throttle", timeout_seconds=PATIENT_SECONDS)
    assert "expected all of the answer within 150 s" in str(raised.value) or "100 headers" in str(raised.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"Content-Length: 100\r\n\r\n", "the rest of the answer did not come: TimeoutError: timed out"),
        (b"Content-Length: 5\r\n\r\nclose", "503: close"),
    ],
)
def test_a_refusal_whose_rest_does_not_come_is_a_refusal(content: bytes, said: str) -> None:
    with answered(REFUSED + content) as url, pytest.raises(RefusedError, match=f"^{url}/throttle: 503: ") as raised:
        ask(url, "/throttle", timeout_seconds=2.0)
    assert said in str(raised.value)


def test_a_refusal_that_does_not_end_is_a_refusal(hurried: None) -> None:
    begins = REFUSED + b"Content-Length: 9999999\r\n\r\n"
    with answered(begins, b"x") as url, pytest.raises(RefusedError, match=f"^{url}/throttle: 503: ") as raised:
        ask(url, "/throttle", timeout_seconds=PATIENT_SECONDS)
    assert "TimeoutError: the answer does not end" in str(raised.value)


def test_of_what_speaks_tls_the_same_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hurried: None) -> None:
    authority = Authority(tmp_path / "tls")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), answering(OK, b"X"))
    encrypt(server, authority)
    with serving(server) as url, pytest.raises(UnreachableError, match="the answer does not end"):
        ask(url.replace("http:", "https:"), "/throttle", timeout_seconds=PATIENT_SECONDS)


def test_a_certificate_that_is_not_strictly_by_the_book_is_taken_by_every_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Python 3.13 on the default is to refuse one without the identifier of its authority's key, as many a company
    has it; commands refused certificates that they had taken on 3.11."""
    keys = Keys(tmp_path / "tls")
    keys.issue_with("server.pem", [x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])])
    usual = ssl.create_default_context

    def strict(**options: str | None) -> ssl.SSLContext:
        context = usual(**options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    monkeypatch.setenv("SSL_CERT_FILE", str(keys.authority.certificate))
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), answering(OK + b"Content-Length: 2\r\n\r\n{}", b""))
    context = keys.server(presents=keys.home / "server.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with serving(server) as url:
        assert ask(url.replace("http:", "https:"), "/throttle", timeout_seconds=PATIENT_SECONDS) == b"{}"


def test_a_server_that_refuses_a_certificate_is_heard_also_where_the_request_fails_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that no buffer holds: sending fails for certain, as it did for every sixth small request."""
    authority = Authority(tmp_path / "tls")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), answering(OK, b""))
    encrypt(server, authority, wants_certificate=True)
    with serving(server) as url, pytest.raises(DistrustError, match="CERTIFICATE_REQUIRED"):
        send(url.replace("http:", "https:"), "/throttle", method="PUT", body=bytes(2**26))


@pytest.mark.parametrize(
    "url", ["http://admin:geheim@127.0.0.1:9404", "admin:geheim@kafka", "https://admin:ge/he@im@k"]
)
def test_a_password_in_a_url_is_in_no_message(url: str) -> None:
    with pytest.raises(UnreachableError, match=r"…@(127|k).*expected a URL like .*, without a user") as raised:
        ask(url, "/throttle")
    assert not any(piece in str(raised.value) for piece in ("geheim", "ge/", "he@", "im@"))


def test_a_port_that_is_none_is_no_other_port() -> None:
    """The system takes the last sixteen bits of it."""
    with answered(OK + b"Content-Length: 2\r\n\r\n{}") as url:
        port = int(url.rpartition(":")[2]) + 65536
        with pytest.raises(UnreachableError, match="no answer from a sidecar: Port out of range 0-65535"):
            ask(f"http://127.0.0.1:{port}", "/throttle")
