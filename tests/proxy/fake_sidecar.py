"""A sidecar's HTTP endpoint that says what it is told to."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROLE = {
    "quota_bytes_per_second": 4194304,
    "rate_bytes_per_second": 4000000,
    "throttled_bytes_total": {"in_sync": 1, "catching_up": 2},
    "omitted_partitions_total": 17,
    "lag_messages": 12345,
    "eta_seconds": 12.5,
    "connections": 3,
    "held_requests": 1,
    "partitions": [
        {"topic": "orders", "partition": 7, "peer": "102", "in_sync": False, "lag_messages": 345},
    ],
}
PAGE = {
    "broker": 101,
    "policy": "strict",
    "enforce": True,
    "quotas": {"hash": "abc"},
    "roles": {"leader": ROLE},
    "conditions": [],
    "added_later": 1,
}


class FakeSidecar(HTTPServer):
    """Answers every GET with `content`; or, with `answers` (path -> status and body), those and no other."""

    def __init__(self, answers: Mapping[str, tuple[int, bytes]] | None = None) -> None:
        self.answers = answers
        self.content = json.dumps(PAGE).encode()
        self.paths: list[str] = []
        self.tokens: list[str | None] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        fake: Any = self.server
        fake.paths.append(self.path)
        fake.tokens.append(self.headers.get("Authorization"))
        status, body = (200, fake.content) if fake.answers is None else fake.answers[self.path]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def serving(fake: FakeSidecar) -> Iterator[FakeSidecar]:
    """It answers for as long as the block."""
    with fake:
        thread = threading.Thread(target=fake.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield fake
        finally:
            fake.shutdown()
            thread.join()
