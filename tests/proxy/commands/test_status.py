from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result

    Sidecar = Callable[..., Result]

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


@pytest.fixture
def fake() -> Iterator[FakeSidecar]:
    with FakeSidecar() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_into_a_pipe_it_prints_one_table(fake: FakeSidecar, sidecar: Sidecar) -> None:
    result = sidecar("status", "--url", f"{fake.url}/")
    assert result.exit_code == 0
    assert fake.paths == ["/throttle"]
    assert "\x1b" not in result.output
    for cell in ("101", "leader", "4.00 MiB/s", "3.81 MiB/s", "95%", "17", "12345", "12s", "orders", "345"):
        assert cell in result.output


def test_several_sidecars_share_the_table(fake: FakeSidecar, sidecar: Sidecar) -> None:
    result = sidecar("status", "--once", "--url", fake.url, "--url", fake.url)
    assert result.output.count("4.00 MiB/s") == 2


def test_json_is_the_sidecars_own(fake: FakeSidecar, sidecar: Sidecar) -> None:
    result = sidecar("status", "--json", "--url", fake.url)
    assert json.loads(result.output) == PAGE


@pytest.mark.parametrize("content", [b"<html>", b"{}", b"[]"])
def test_another_server_is_not_taken_for_a_sidecar(fake: FakeSidecar, sidecar: Sidecar, content: bytes) -> None:
    fake.content = content
    result = sidecar("status", "--url", fake.url)
    assert result.exit_code == 1
    assert f"Error: {fake.url}: the answer is not a sidecar's" in result.stderr


@pytest.mark.parametrize("mode", ["--once", "--json"])
def test_nobody_there_is_an_error_with_the_url(fake: FakeSidecar, sidecar: Sidecar, mode: str) -> None:
    result = sidecar("status", mode, "--url", fake.url, "--url", "http://127.0.0.1:1")
    assert result.exit_code == 1
    assert "Error: http://127.0.0.1:1/throttle: no answer from a sidecar" in result.stderr
    assert "Traceback" not in result.output


def test_a_url_without_a_scheme_is_an_error(sidecar: Sidecar) -> None:
    result = sidecar("status", "--url", "localhost:9404")
    assert result.exit_code == 1
    assert "expected a URL like http://127.0.0.1:9404" in result.stderr


def test_watching_goes_on_while_nobody_answers(
    fake: FakeSidecar, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("proxy.commands.status.time.sleep", sleep)
    result = sidecar("status", "--watch", "--url", fake.url, "--url", "http://127.0.0.1:1")
    assert result.exit_code == 0
    assert slept == [1.0, 1.0, 1.0]
    assert len(fake.paths) == 3
    assert "no answer from a sidecar" in result.output
