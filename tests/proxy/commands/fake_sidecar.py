"""A sidecar's HTTP endpoint that says what it is told to."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

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
    "added_later": 1,
}


class FakeSidecar(HTTPServer):
    """Answers every GET with `content`."""

    def __init__(self) -> None:
        self.content = json.dumps(PAGE).encode()
        self.paths: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server: Any = self.server
        server.paths.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(server.content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Says nothing."""
