"""Where connections would go without the sidecar, by its proxy.toml; what leads nowhere is refused at the start."""

from __future__ import annotations

import re
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


def test_a_listener_of_ipv4_is_led_to_the_ipv4_address_of_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`localhost` has ::1 first on many hosts, and nobody who dials 0.0.0.0 can be led there."""
    both = [(0, 0, 0, "", (host, 0)) for host in ("::1", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    path = tmp_path / "proxy.toml"
    path.write_text("[broker]\nid = 101\n[ingress]\nlisten = '0.0.0.0:9092'\nupstream = 'localhost:19092'\n")
    found = ways_of(load_settings(path), ports="9092", sidecar_uid=65532).detours
    assert found == (Detour(None, 9092, Address("127.0.0.1", 19092), leaves_host=False),)


def test_leaders_that_a_transparent_egress_names_are_tried(tmp_path: Path) -> None:
    path = tmp_path / "proxy.toml"
    path.write_text(
        "[broker]\nid = 101\n[egress]\nmode = 'transparent'\nlisten = '[::]:15001'\n"
        "[[egress.peers]]\nbroker = 102\nupstream = 'leader-102:9092'\n"
    )
    found = ways_of(load_settings(path), ports="9092", sidecar_uid=65532)
    assert (found.leaders, found.listeners) == ((Address("198.18.0.12", 9092),), ((None, 15001),))


@pytest.mark.parametrize(
    ("detour", "crosses"),
    [
        (Detour(None, 9092, Address("127.0.0.1", 19092), leaves_host=False), True),
        (Detour("10.0.0.1", 9092, Address("127.0.0.1", 19092), leaves_host=False), True),
        (Detour("127.0.0.9", 9092, Address("127.0.0.1", 19092), leaves_host=False), False),
        (Detour(None, 9092, Address("10.0.0.1", 19092), leaves_host=False), False),
        (Detour("127.0.102.1", 9092, Address("10.0.0.2", 9092), leaves_host=True), True),
        (Detour("10.0.0.1", 9102, Address("10.0.0.2", 9092), leaves_host=True), False),
        (Detour(None, 9102, Address("10.0.0.2", 9092), leaves_host=True), True),
        (Detour("127.0.102.1", 9092, Address("127.0.0.2", 9092), leaves_host=True), False),
    ],
)
def test_what_the_kernel_lets_pass_only_with_route_localnet(detour: Detour, *, crosses: bool) -> None:
    assert detour.crosses_loopback == crosses
    assert Ways(101, (detour,)).need_route_localnet(4) == crosses
    assert not Ways(101, (detour,)).need_route_localnet(6)


@pytest.mark.parametrize(
    ("listen", "upstream", "problem"),
    [
        ("[::]:9092", "[::1]:19092", "the kernel drops such packets of IPv6"),
        ("0.0.0.0:9092", "192.0.2.1:9092", "expected an address of this host, found 192.0.2.1:9092"),
        ("0.0.0.0:9092", "[fd00::2]:9092", "expected listen and upstream of one family"),
    ],
)
def test_an_ingress_that_cannot_be_led_around_is_refused(
    tmp_path: Path, listen: str, upstream: str, problem: str
) -> None:
    path = tmp_path / "proxy.toml"
    path.write_text(f"[broker]\nid = 101\n[ingress]\nlisten = '{listen}'\nupstream = '{upstream}'\n")
    with pytest.raises(ConfigurationError, match=re.escape(problem)):
        ways_of(load_settings(path), ports="9092", sidecar_uid=65532)


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
