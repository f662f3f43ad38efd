from __future__ import annotations

import socket
from pathlib import Path

import pytest

from operating.client.names import MOST_HOSTS_BYTES, host_of, known_addresses, unresolved
from proxy.errors import ConfigurationError


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


def test_addresses_are_those_of_lines_like_etc_hosts(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_bytes(b"# gr\xfc\xdfe\n10.0.0.2 kafka-102 k2 # kafka-104\n\n::1 kafka-103\n10.0.0.9 k2\n")
    assert known_addresses(hosts) == {"kafka-102": "10.0.0.2", "k2": "10.0.0.9", "kafka-103": "::1"}


def test_a_hosts_file_is_never_read_beyond_what_one_may_have(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_bytes(b"#" * (MOST_HOSTS_BYTES + 1))
    with pytest.raises(ConfigurationError, match=rf"hosts: expected at most {MOST_HOSTS_BYTES} bytes, found a larger"):
        known_addresses(hosts)
    with pytest.raises(ConfigurationError, match="/dev/zero: cannot be read: expected a file, found a device"):
        known_addresses(Path("/dev/zero"))
    assert unresolved(["kafka-104"], hosts) == ["kafka-104"]


@pytest.mark.parametrize(
    ("server", "host"),
    [("kafka-101:9092", "kafka-101"), ("SSL://a.b:9092", "a.b"), ("[::1]:9092", "::1"), ("kafka-101", "kafka-101")],
)
def test_the_host_of_a_server(server: str, host: str) -> None:
    assert host_of(server) == host
