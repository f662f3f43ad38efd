"""Openers that go nowhere else, and ask nothing of a machine's certificates where none are needed."""

from __future__ import annotations

import http.server
import ssl
import urllib.error
from typing import TYPE_CHECKING

import pytest

from operating.asking import ask
from operating.http_client import opener
from tests.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    with opener().open(server, timeout=3.0) as answer:
        assert answer.read() == b"here"
    with pytest.raises(urllib.error.HTTPError, match="302") as refused:
        opener().open(f"{server}/elsewhere", timeout=3.0)
    refused.value.close()


def test_without_a_context_https_is_no_scheme() -> None:
    with pytest.raises(urllib.error.URLError, match="unknown url type"):
        opener().open("https://127.0.0.1:1/", timeout=3.0)
    with pytest.raises(urllib.error.URLError, match="refused"):
        opener(ssl.create_default_context()).open("https://127.0.0.1:1/", timeout=3.0)


def test_plain_http_reads_no_certificates(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: pytest.fail("certificates were read"))
    assert ask(server, "/throttle") == b"here"
