"""A listener whose upstream leads back to it dials nobody: each connection would dial the next one."""

from __future__ import annotations

import socket
from typing import Any

import pytest
import trio
import trio.testing

from proxy.config.settings_values import Address
from proxy.network.loop_guard import OwnListenerError, dial_except_own, is_own


class HostsFile(trio.abc.HostnameResolver):
    """Every name is at these addresses."""

    def __init__(self, *hosts: str) -> None:
        self._hosts = hosts

    async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, int(port))) for each in self._hosts]

    async def getnameinfo(self, *_: Any) -> tuple[str, str]:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("listen", "upstream"),
    [
        ("127.0.102.1", "127.0.102.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("0.0.0.0", "127.0.102.1"),
        ("::", "::1"),
        ("0:0::1", "::1"),
    ],
)
async def test_the_listener_itself_is_not_dialled(listen: str, upstream: str) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host=listen)
    async with listener:
        reached = listener.socket.getsockname()
        dial = dial_except_own(Address(listen, reached[1]), reached, "egress.peers[0].listen")
        with pytest.raises(OwnListenerError, match=r"expected another address than that of egress\.peers\[0\]\.listen"):
            await dial(Address(upstream, reached[1]), timeout_seconds=2)
        with trio.move_on_after(0.1) as nobody:
            await listener.accept()
        assert nobody.cancelled_caught


async def test_a_name_that_the_hosts_file_leads_here_is_not_dialled() -> None:
    """As the README had it: the broker's name for the leader is the sidecar's name for the leader as well."""
    trio.socket.set_custom_hostname_resolver(HostsFile("127.0.102.1"))
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.102.1")
    async with listener:
        reached = listener.socket.getsockname()
        dial = dial_except_own(Address("127.0.102.1", reached[1]), reached, "egress.peers[0].listen")
        with pytest.raises(OwnListenerError, match=r"found 127\.0\.102\.1:\d+: the sidecar would dial itself"):
            await dial(Address("kafka-102", reached[1]), timeout_seconds=2)


@pytest.mark.parametrize(("listen", "upstream"), [("127.0.102.1", "127.0.0.1"), ("127.0.102.1", "127.0.103.1")])
async def test_another_listener_of_this_host_is_dialled(listen: str, upstream: str) -> None:
    (there,) = await trio.open_tcp_listeners(0, host=upstream)
    async with there:
        port = there.socket.getsockname()[1]
        dial = dial_except_own(Address(listen, port), (listen, port), "egress.peers[0].listen")
        transport = await dial(Address(upstream, port), timeout_seconds=2)
        transport.close()


@pytest.mark.parametrize(
    ("listen", "found", "own"),
    [
        ("0.0.0.0", ("127.0.0.7", 9092), True),
        ("0.0.0.0", ("198.51.100.1", 9092), False),  # nobody's (RFC 5737)
        ("0.0.0.0", ("127.0.0.7", 9093), False),
        ("0.0.0.0", ("::1", 9092, 0, 0), False),
        ("::", ("::1", 9092, 0, 0), True),
        ("::", ("2001:db8::1", 9092, 0, 0), False),  # nobody's (RFC 3849)
        ("::", ("127.0.0.7", 9092), False),
        ("kafka-102", ("127.0.102.1", 9092), True),
        ("kafka-102", ("127.0.103.1", 9092), False),
    ],
)
def test_what_is_listened_on_is_told_from_what_is_elsewhere(listen: str, found: tuple[Any, ...], own: bool) -> None:
    family = socket.AF_INET6 if ":" in found[0] else socket.AF_INET
    assert is_own(Address(listen, 9092), ("127.0.102.1", 9092), family, found) == own


async def test_a_name_server_that_hangs_has_no_more_time_than_the_leader() -> None:
    class Hangs(HostsFile):
        async def getaddrinfo(self, *_: Any, **__: Any) -> list[Any]:
            await trio.sleep_forever()
            return []

    trio.socket.set_custom_hostname_resolver(Hangs())
    dial = dial_except_own(Address("0.0.0.0", 9092), ("127.0.0.1", 9092), "ingress.listen")
    with trio.fail_after(2), pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"):
        await dial(Address("kafka-102", 9092), timeout_seconds=0.05)


async def test_the_name_server_and_the_leader_have_one_time_together(autojump_clock: trio.testing.MockClock) -> None:
    """Each had all of connect_timeout, so that a dial could take twice as long."""

    class IsSlow(HostsFile):
        async def getaddrinfo(self, *asked: Any, **more: Any) -> list[Any]:
            await trio.sleep(0.6)
            return await super().getaddrinfo(*asked, **more)

    (there,) = await trio.open_tcp_listeners(0, host="127.0.103.1")
    trio.socket.set_custom_hostname_resolver(IsSlow("127.0.103.1"))
    async with there:
        port = there.socket.getsockname()[1]
        dial = dial_except_own(Address("0.0.0.0", port + 1), ("127.0.0.1", port + 1), "ingress.listen")
        with pytest.raises(TimeoutError, match=r"no answer within 1 s"):
            await dial(Address("kafka-103", port), timeout_seconds=1.0)
