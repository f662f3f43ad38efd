"""Commands ask a sidecar whose every page wants a token, if they are told where it is."""

from __future__ import annotations

import http.server
import time
from typing import TYPE_CHECKING

import pytest

from lab.authority import Authority
from operating.asking import CERTIFICATE_FILE, TOKEN_FILE, ask
from operating.commands.telling import token_of
from operating.fleet.file import Member
from proxy.errors import ConfigurationError, UnreachableError
from tests.serving import serving

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
    member = Member(101, url, None, None, tmp_path / "token")
    with pytest.raises(ConfigurationError, match=r"token: expected one token") as raised:
        token_of(member)
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


class Dripping(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b" ")
                time.sleep(0.02)
        except OSError:
            """Nobody listens any more."""

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


def test_an_answer_that_never_ends_is_given_up() -> None:
    """Or one sidecar would hold up the table of all."""
    with (
        serving(http.server.HTTPServer(("127.0.0.1", 0), Dripping)) as url,
        pytest.raises(UnreachableError, match="no answer from a sidecar: the answer does not end"),
    ):
        ask(url, "/throttle", timeout_seconds=0.1)
