"""Where connections would go without the sidecar, by its proxy.toml; what leads nowhere is refused at the start."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from operating.guard.ways import Detour, Ways, ways_of
from proxy.config.settings import Address, load_settings
from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = {"kafka-102": "127.0.102.1", "leader-102": "198.18.0.12", "six": "fd00::2"}


@pytest.fixture(autouse=True)
def _hosts_file(monkeypatch: pytest.MonkeyPatch) -> None:
    look_up = socket.getaddrinfo

    def found(host: str, port: int, **options: Any) -> Any:
        return look_up(HOSTS.get(host, host), port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", found)


def ways(folder: Path, *, listen: str, upstream: str) -> Ways:
    path = folder / "proxy.toml"
    path.write_text(
        "[broker]\nid = 101\n[ingress]\nlisten = '0.0.0.0:9092'\nupstream = '127.0.0.1:19092'\n"
        f"[egress]\n[[egress.peers]]\nbroker = 102\nlisten = '{listen}'\nupstream = '{upstream}'\n"
    )
    return ways_of(load_settings(path), ports="9092", sidecar_uid=65532)


def test_both_roles_lead_to_whom_the_sidecar_would_have_dialled(tmp_path: Path) -> None:
    assert ways(tmp_path, listen="kafka-102:9092", upstream="leader-102:9092").detours == (
        Detour("127.0.102.1", 9092, Address("198.18.0.12", 9092), leaves_host=True),
        Detour(None, 9092, Address("127.0.0.1", 19092), leaves_host=False),
    )


@pytest.mark.parametrize(
    ("upstream", "problem"),
    [
        ("kafka-102:9092", "expected another address than that of its listen, found 127.0.102.1:9092"),
        ("six:9092", "expected listen and upstream of one family, found 127.0.102.1:9092 and [fd00::2]:9092"),
    ],
)
def test_what_leads_nowhere_is_refused(tmp_path: Path, upstream: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ways(tmp_path, listen="127.0.102.1:9092", upstream=upstream)
    assert "egress.peers[0]" in str(caught.value)
    assert problem in str(caught.value)
