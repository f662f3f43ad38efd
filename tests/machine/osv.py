"""A service as OSV is one, that knows nothing bad unless it is told so."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

KNOWN = {
    "id": "OSV-1",
    "modified": "2026-01-01T00:00:00Z",
    "published": "2026-01-01T00:00:00Z",
    "summary": "made up",
    "affected": [
        {
            "package": {"name": "h11", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}],
        }
    ],
}


class Osv(BaseHTTPRequestHandler):
    bad: str | None = None
    asked: list[str]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        names = [query["package"]["name"] for query in body["queries"]]
        type(self).asked += names
        known = {"vulns": [{"id": KNOWN["id"], "modified": KNOWN["modified"]}]}
        self._say({"results": [known if name == self.bad else {} for name in names]})

    def do_GET(self) -> None:
        self._say(KNOWN)

    def _say(self, answer: dict[str, Any]) -> None:
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass
