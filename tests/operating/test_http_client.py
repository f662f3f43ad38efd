"""Connections go nowhere else, and ask nothing of a machine's certificates where none are needed."""

from __future__ import annotations

import http.server
import socketserver
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from operating.asking import RefusedError, ask, send
from proxy.control.directory import control_path
from proxy.errors import UnreachableError
from tests.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Redirecting(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(302 if self.path == "/elsewhere" else 200)
        self.send_header("Location", "/")
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"here")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with serving(http.server.HTTPServer(("127.0.0.1", 0), Redirecting)) as url:
        yield url


def test_a_redirect_is_the_error_that_its_status_says(server: str) -> None:
    assert ask(server, "/throttle") == b"here"
    with pytest.raises(RefusedError, match="302"):
        ask(server, "/elsewhere")


def test_a_url_without_a_host_is_no_url() -> None:
    with pytest.raises(UnreachableError, match="no host given"):
        ask("https://:1", "/throttle")


def test_plain_http_reads_no_certificates(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: pytest.fail("certificates were read"))
    assert ask(server, "/throttle") == b"here"


def test_no_proxy_of_the_environment_is_asked(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token goes to the sidecar that the URL names, and to nobody in between."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert ask(server, "/throttle") == b"here"


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with the method and the path that it was asked for."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        said = f"{self.command} {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


def test_pages_of_control_sock_may_have_several_parts(tmp_path: Path) -> None:
    with (
        socketserver.UnixStreamServer(str(control_path(tmp_path)), Echo) as server,
        ThreadPoolExecutor(1) as thread,
    ):
        thread.submit(server.serve_forever, 0.01)
        try:
            assert ask(f"unix:{tmp_path}", "/readyz") == b"GET /readyz"
            assert send(f"unix:{tmp_path}/", "/overrides/undo", method="POST", body=b"{}")[0] == b"POST /overrides/undo"
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("prefix", "path"), [("", "/overrides/undo"), ("/", "/overrides/undo"), ("/a/b/", "/a/b/overrides/undo")]
)
def test_a_url_may_have_a_path_of_its_own(prefix: str, path: str) -> None:
    with serving(http.server.HTTPServer(("127.0.0.1", 0), Echo)) as url:
        assert ask(f"{url}{prefix}", "/overrides/undo").decode() == f"GET {path}"
