"""machine/audit with an OSV of its own: what is known fails it, what nobody knows passes, and silence is said."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
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


@pytest.fixture
def osv() -> Iterator[str]:
    Osv.asked = []
    with HTTPServer(("127.0.0.1", 0), Osv) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def audit(**environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "UV_NO_CACHE": "1", "UV_HTTP_TIMEOUT": "2", "UV_HTTP_RETRIES": "0", **environment}
    command = [str(ROOT / "machine" / "audit")]
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False)


def test_a_known_vulnerability_of_what_is_shipped_fails(osv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Osv, "bad", "h11")
    done = audit(OSV=osv)
    assert done.returncode == 1
    assert "OSV-1" in done.stdout


def test_what_nobody_knows_passes_and_all_that_is_shipped_was_asked_for(osv: str) -> None:
    assert audit(OSV=osv).returncode == 0
    assert {"h11", "trio", "msgspec", "kafka-python"} <= set(Osv.asked)
    assert "pytest" not in Osv.asked


@pytest.mark.parametrize(("required", "status"), [("", 0), ("required", 2)])
def test_where_nobody_answers_that_is_said_and_a_release_fails(required: str, status: int) -> None:
    done = audit(OSV="http://127.0.0.1:9/", AUDIT=required)
    assert done.returncode == status
    assert "NOT audited: nobody answered" in done.stderr
