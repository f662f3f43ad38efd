"""Whom a redirected connection is for, by name: that is what its certificate is held to, and what is presented."""

from __future__ import annotations

import socket
import ssl
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from lab.brokers.authority import Authority
from proxy.cluster.broker_client import KnownBrokers
from proxy.config.settings import load_settings
from proxy.config.settings_values import Address
from proxy.network.connection_setup import ConnectionSetup, OwnListenerError, Route, dial_except_own, is_own
from proxy.relay.transport import connect, detached
from proxy.roles import Role
from proxy.statistics.counters import Statistics
from proxy.tls.handshakes import HandshakeError, Reason
from proxy.tls.legs import open_legs

from ..recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proxy.network.redirected import AcceptedSocket
    from proxy.relay.connection import Dial


SETTINGS = """
[broker]
id = 101
[egress]
mode = "transparent"
listen = "127.0.0.1:1"
{peers}
[egress.tls.listen]
ssl.keystore.location = ["one.pem", "two.pem", "address.pem"]
[egress.tls.upstream]
ssl.truststore.location = "ca.pem"
"""
ROUTE = Route(Role.FOLLOWER, Address("127.0.0.1", 1), None, None, "egress.listen")


class Redirected:
    """As the kernel would say: every connection was for `upstream`."""

    def __init__(self, upstream: Address) -> None:
        self._upstream = upstream

    def destination(self, _: AcceptedSocket) -> Address:
        return self._upstream

    @contextmanager
    def dialling(self) -> Iterator[Dial]:
        yield connect


class Scene:
    """The broker beside dials; the leader presents `leader_names`."""

    def __init__(self, home: Path, leader_names: list[str]) -> None:
        self.home, self.authority, self.log = home, Authority(home), RecordedLog()
        self.refused: Reason | None = None
        for file, name in (("one", "kafka-1.kafka"), ("two", "kafka-2.kafka"), ("address", "127.0.0.1")):
            self.authority.issue(f"{file}.pem", [name])
        self._leader = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._leader.load_cert_chain(self.authority.issue("leader.pem", leader_names))

    async def run(self, *, dials: str, peer: str = "") -> tuple[str, str]:
        """(name on the certificate that the broker beside was shown, whom the sidecar takes it for)."""
        shown: list[str] = []
        async with trio.open_nursery() as nursery:
            (listener,) = await nursery.start(partial(trio.serve_tcp, self._lead, 0, host="127.0.0.1"))
            leader = listener.socket.getsockname()
            peers = f'[[egress.peers]]\nbroker = 7\nupstream = "127.0.0.1:{leader[1]}"\n{peer}' if peer else ""
            (self.home / "proxy.toml").write_text(SETTINGS.format(peers=peers))
            settings = load_settings(self.home / "proxy.toml")
            legs = open_legs(settings.tls, limits=settings.limits, log=self.log)
            self.brokers = KnownBrokers(settings, legs)
            connection_setup = ConnectionSetup(
                settings,
                legs,
                Redirected(Address(*leader[:2])),
                meet=self.brokers.meet,
                refused=Statistics().follower,
                log=self.log,
            )
            (beside,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(self._dial, Address(*beside.socket.getsockname()[:2]), dials, shown)
            async with beside, connection_setup.receive(ROUTE, detached(await beside.accept())) as received:
                assert received is not None
                try:
                    transport = await received.dial(received.upstream, timeout_seconds=2)
                    transport.close()
                except HandshakeError as error:
                    self.refused = error.reason
                finally:
                    received.follower.close()
                    nursery.cancel_scope.cancel()
        return shown[0], received.peer

    async def _lead(self, stream: trio.SocketStream) -> None:
        secured = trio.SSLStream(stream, self._leader, server_side=True, https_compatible=True)
        try:
            await secured.do_handshake()
            await secured.receive_some(1)
        except trio.BrokenResourceError:
            return

    async def _dial(self, address: Address, name: str, shown: list[str]) -> None:
        context = ssl.create_default_context(cafile=self.authority.certificate)
        async with await trio.open_tcp_stream(*address) as plain:
            secured = trio.SSLStream(plain, context, server_hostname=name, https_compatible=True)
            await secured.do_handshake()
            names = dict(secured.getpeercert())["subjectAltName"]
            shown.append(names[0][1])
            await trio.sleep_forever()


async def test_the_name_that_the_broker_beside_asks_for_is_presented_and_verified(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ["kafka-2.kafka"])
    shown, _ = await scene.run(dials="kafka-2.kafka")
    assert shown == "kafka-2.kafka"
    assert scene.refused is None
    assert [broker.name for broker in scene.brokers] == ["kafka-2.kafka"], "questions are asked under the same name"


async def test_a_leader_of_another_name_than_was_asked_for_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ["kafka-2.kafka"])
    await scene.run(dials="kafka-1.kafka")
    assert scene.refused is Reason.WRONG_NAME


async def test_a_peer_that_is_known_by_its_address_is_held_to_its_own_name(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ["kafka-2.kafka"])
    shown, peer = await scene.run(dials="kafka-2.kafka", peer='server_name = "kafka-2.kafka"')
    assert (shown, peer) == ("kafka-2.kafka", "7")


async def test_without_a_name_it_is_the_address(tmp_path: Path) -> None:
    """Java asks by SNI for names with a dot in them alone."""
    scene = Scene(tmp_path, ["127.0.0.1"])
    shown, _ = await scene.run(dials="127.0.0.1")
    assert shown == "127.0.0.1"


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
