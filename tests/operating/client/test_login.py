from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from operating.client.kafka_python import TokenProvider
from operating.client.login import token_source
from proxy.errors import ClusterError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLIENT = {"clientId": "ana", "clientSecret": "geheim", "scope": "kafka ops"}
URL = "sasl.oauthbearer.token.endpoint.url"


class Endpoint:
    """A token endpoint that answers as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str | None, str]] = []
        self.status, self.answer = 200, b'{"access_token":"t0ken","expires_in":60}'
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                outer.asked.append((self.headers["Authorization"], body))
                self.send_response(outer.status)
                self.end_headers()
                self.wfile.write(outer.answer)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_a_token_endpoint_is_asked_for_each_login(endpoint: Endpoint) -> None:
    """KIP-768: client credentials."""
    token = token_source({URL: endpoint.url}, CLIENT).fetch
    assert (token(), token()) == ("t0ken", "t0ken")
    login = base64.b64encode(b"ana:geheim").decode()
    assert endpoint.asked == [(f"Basic {login}", "grant_type=client_credentials&scope=kafka+ops")] * 2


def test_credentials_may_be_properties(endpoint: Endpoint) -> None:
    """KIP-1139."""
    prefix = "sasl.oauthbearer.client.credentials.client"
    assert token_source({URL: endpoint.url, f"{prefix}.id": "ana", f"{prefix}.secret": "geheim"}, {}).fetch() == "t0ken"
    assert endpoint.asked[0][1] == "grant_type=client_credentials"


@pytest.mark.parametrize(
    ("status", "answer", "problem"),
    [
        (401, b'{"error":"invalid_client"}', "the token endpoint answers 401 Unauthorized"),
        (200, b"<html>", "no token: "),
        (200, b"[]", "no token: "),
        (200, b"{}", "the token endpoint's answer has no access_token"),
    ],
)
def test_an_endpoint_that_gives_no_token_is_said(endpoint: Endpoint, status: int, answer: bytes, problem: str) -> None:
    endpoint.status, endpoint.answer = status, answer
    with pytest.raises(ClusterError) as error:
        token_source({URL: endpoint.url}, CLIENT).fetch()
    assert str(error.value).startswith(f"{endpoint.url}: {problem}")
    assert "geheim" not in str(error.value)


def test_an_endpoint_that_is_not_there_is_said() -> None:
    with pytest.raises(ClusterError, match=r"http://127.0.0.1:1/token: no token: .*refused"):
        token_source({URL: "http://127.0.0.1:1/token"}, CLIENT).fetch()


def test_a_file_is_read_for_each_login(tmp_path: Path) -> None:
    path = tmp_path / "to ken"
    path.write_text("one\n")
    sources = [token_source({URL: path.as_uri()}, {}), token_source({"sasl.oauthbearer.token.file": str(path)}, {})]
    assert [source.fetch() for source in sources] == ["one", "one"]
    path.write_text("two")
    assert [source.fetch() for source in sources] == ["two", "two"]
    path.unlink()
    with pytest.raises(ConfigurationError, match=r"to ken: cannot be read: No such file"):
        sources[0].fetch()


def test_kafkas_unsecured_tokens() -> None:
    head, claims, signature = token_source({}, {"unsecuredLoginStringClaim_sub": "ana"}).fetch().split(".")
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none"}
    found = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    assert (found["sub"], found["exp"] - found["iat"], signature) == ("ana", 3600, "")


@pytest.mark.parametrize(
    ("properties", "options", "problem"),
    [
        ({}, CLIENT, f"{URL}: OAUTHBEARER needs the URL of a token endpoint"),
        ({URL: "ldap://x"}, CLIENT, f"{URL}: OAUTHBEARER needs the URL of a token endpoint"),
        ({URL: "https://x/token"}, {"clientId": "ana"}, 'sasl.jaas.config: expected clientId="…" and clientSecret="…"'),
    ],
)
def test_what_is_missing_is_said(properties: dict[str, str], options: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        token_source(properties, options)
    assert str(error.value).startswith(problem)


def test_extensions_go_with_each_login() -> None:
    """KIP-342: Confluent's clouds want them."""
    options = {"unsecuredLoginStringClaim_sub": "ana", "extension_logicalCluster": "lkc-1"}
    provider = TokenProvider(token_source({}, options))
    assert provider.extensions() == {"logicalCluster": "lkc-1"}
    assert provider.token().count(".") == 2
