"""Which broker is at an address: names that move, names that nobody resolves, a resolver that does not answer."""

from __future__ import annotations

import socket
from typing import Any

import pytest
import trio
import trio.testing

from proxy.config.settings import Address, PeerSettings
from proxy.network.connection_setup import FRESH_SECONDS, RESOLVE_SECONDS, NameLookups, PeerNames

PEERS = (PeerSettings(102, None, Address("kafka-102", 9092)), PeerSettings(103, None, Address("kafka-103", 9092)))
AT_2, AT_3 = Address("10.0.0.2", 9092), Address("10.0.0.3", 9092)


class Resolver(trio.abc.HostnameResolver):
    """`hosts`: addresses by name; None: no answer, ever."""

    def __init__(self, **hosts: str | None) -> None:
        self.hosts = {name.replace("_", "-"): host for name, host in hosts.items()}
        self.asked = 0

    async def getaddrinfo(self, host: Any, port: Any, *args: Any) -> Any:
        self.asked += 1
        name = host.decode() if isinstance(host, bytes) else host
        if name not in self.hosts:
            raise socket.gaierror(socket.EAI_NONAME, "nobody")
        if (found := self.hosts[name]) is None:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found, port))]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise NotImplementedError


@pytest.fixture
def clock(autojump_clock: trio.testing.MockClock) -> trio.testing.MockClock:
    return autojump_clock


async def test_without_peers_an_address_stands_for_itself(clock: trio.testing.MockClock) -> None:
    assert await PeerNames(()).of(Address("fd00::2", 9092)) == "[fd00::2]:9092"


async def test_an_address_needs_no_resolver(clock: trio.testing.MockClock) -> None:
    trio.socket.set_custom_hostname_resolver(Resolver())
    assert await PeerNames((PeerSettings(102, None, AT_2),)).of(AT_2) == "102"


async def test_a_name_is_found_by_address_and_port(clock: trio.testing.MockClock) -> None:
    trio.socket.set_custom_hostname_resolver(Resolver(kafka_102="10.0.0.2", kafka_103="10.0.0.3"))
    names = PeerNames(PEERS)
    assert [await names.of(AT_2), await names.of(AT_3)] == ["102", "103"]
    assert await names.of(Address("10.0.0.2", 9093)) == "10.0.0.2:9093"


async def test_a_name_that_moves_is_followed_and_not_asked_for_all_the_time(clock: trio.testing.MockClock) -> None:
    resolver = Resolver(kafka_102="10.0.0.2", kafka_103="10.0.0.3")
    trio.socket.set_custom_hostname_resolver(resolver)
    names = PeerNames(PEERS)
    assert await names.of(AT_2) == "102"
    resolver.hosts = {"kafka-102": "10.0.0.3", "kafka-103": "10.0.0.2"}
    assert (await names.of(AT_2), resolver.asked) == ("102", 2)
    await trio.sleep(FRESH_SECONDS)
    assert [await names.of(AT_2), await names.of(AT_3)] == ["103", "102"]


async def test_who_cannot_be_resolved_any_more_keeps_the_name(clock: trio.testing.MockClock) -> None:
    resolver = Resolver(kafka_102="10.0.0.2")
    trio.socket.set_custom_hostname_resolver(resolver)
    names = PeerNames(PEERS)
    assert await names.of(AT_2) == "102"
    resolver.hosts = {}
    await trio.sleep(FRESH_SECONDS)
    assert [await names.of(AT_2), await names.of(AT_3)] == ["102", "10.0.0.3:9092"]


async def test_without_a_thread_to_look_names_up_an_address_stands_for_itself(
    clock: trio.testing.MockClock, no_threads: None
) -> None:
    """A pod's limit of processes counts the broker's threads as well; its connections ended, for names in logs."""
    trio.socket.set_custom_hostname_resolver(NameLookups())
    assert await PeerNames(PEERS).of(AT_2) == "10.0.0.2:9092"


async def test_nobody_waits_for_a_resolver_that_does_not_answer(clock: trio.testing.MockClock) -> None:
    trio.socket.set_custom_hostname_resolver(Resolver(kafka_102="10.0.0.2", kafka_103=None))
    names = PeerNames(PEERS)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(names.of, AT_2)
    assert trio.current_time() - began == RESOLVE_SECONDS
    assert await names.of(AT_2) == "102"
