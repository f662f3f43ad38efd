"""What the load times, and that it waits for nothing that will not come; beside an API server of a few lines."""

from __future__ import annotations

import json
import ssl
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import trio

from benchmarks.webhook import CONNECTIONS, POD, Load, until_listening
from lab.brokers.authority import Authority
from lab.errors import LabError
from lab.host.processes import Process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST_SECONDS = 0.4


class Answering(BaseHTTPRequestHandler):
    """The first answer of each connection takes long, as where something has yet to be loaded for it."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.client_address not in self.server.asked:
            time.sleep(FIRST_SECONDS)
        self.server.asked[self.client_address] += 1
        self.send_response(201)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api_server(tmp_path: Path) -> Iterator[Any]:
    authority = Authority(tmp_path)
    keys = authority.issue("server.pem", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps({"users": [{"user": {"token": "t"}}]}))
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        server.daemon_threads = True
        server.asked = Counter()
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield SimpleNamespace(
            url=f"https://127.0.0.1:{server.server_port}",
            certificate_authority=authority.certificate,
            kubeconfig=kubeconfig,
            asked=server.asked,
        )
        server.shutdown()


def test_handshakes_and_first_answers_are_not_timed(api_server: Any) -> None:
    """Each connection is asked once more than is timed. If what is timed began before that, all of it would be late by
    the first answers of all connections, which are awaited one after the other."""
    answers = Load(api_server, POD, asks=False).run(rate=100, seconds=0.5)
    assert len(answers) == 50
    assert all(answer.good for answer in answers)
    assert len(api_server.asked) == CONNECTIONS
    assert sum(api_server.asked.values()) == 50 + CONNECTIONS
    assert min(answer.seconds for answer in answers) < CONNECTIONS * FIRST_SECONDS / 2


def test_answers_that_do_not_come_are_an_error(api_server: Any) -> None:
    load = Load(api_server, POD, asks=False)
    load._host = "127.0.0.1:9"
    with pytest.raises(OSError, match="refused"):
        load.run(rate=100, seconds=0.1)


def test_a_webhook_that_ends_is_not_waited_for(tmp_path: Path) -> None:
    webhook = Process("webhook", [sys.executable, "-c", "exit('no such key')"], output=tmp_path / "log")
    webhook.start()
    with pytest.raises(LabError, match=r"webhook ended with status 1 before it listened(.|\n)*no such key"):
        trio.run(until_listening, webhook, "127.88.30.1")
