from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from operating.moves.names import host_of, unresolved

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(host: str, _: object) -> None:
        if host not in ("kafka-101", "127.0.0.1"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def test_names_that_are_nowhere_are_named_once(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# ours\n10.0.0.2 kafka-102 k2 # kafka-104\n")
    asked = ["kafka-101", "kafka-104", "kafka-102", "127.0.0.1", "kafka-104"]
    assert unresolved(asked) == ["kafka-104", "kafka-102"]
    assert unresolved(asked, hosts) == ["kafka-104"]
    assert unresolved(asked, tmp_path / "gone") == ["kafka-104", "kafka-102"]


@pytest.mark.parametrize(
    ("server", "host"),
    [("kafka-101:9092", "kafka-101"), ("SSL://a.b:9092", "a.b"), ("[::1]:9092", "::1"), ("kafka-101", "kafka-101")],
)
def test_the_host_of_a_server(server: str, host: str) -> None:
    assert host_of(server) == host
