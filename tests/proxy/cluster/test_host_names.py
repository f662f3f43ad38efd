"""Brokers' names are looked up at once and within a bound, whichever of them the name server keeps silent about."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest
import trio

from proxy.cluster import questions
from proxy.cluster.host_names import MAX_HOSTS, RESOLVE_SECONDS, HostNames
from proxy.cluster.questions import BrokerAddressQuestion

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock as Clock


class Resolver(trio.abc.HostnameResolver):
    def __init__(self) -> None:
        self.asked = 0
        self.silent = False

    async def getaddrinfo(self, host: Any, *_: Any) -> list[Any]:
        self.asked += 1
        if host == b"gone":
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        if host == b"silent" or self.silent:
            await trio.sleep_forever()
        await trio.sleep(0.1)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.2", 0))]

    async def getnameinfo(self, *_: Any) -> tuple[str, str]:
        raise NotImplementedError


@pytest.fixture
async def resolver() -> AsyncIterator[Resolver]:
    found = Resolver()
    before = trio.socket.set_custom_hostname_resolver(found)
    yield found
    trio.socket.set_custom_hostname_resolver(before)


async def test_a_silent_name_costs_the_bound_and_no_other_name(resolver: Resolver, autojump_clock: Clock) -> None:
    began = trio.current_time()
    found = await HostNames().look_up(["silent", "gone", "kafka-102", "127.0.0.5"])
    assert trio.current_time() - began == RESOLVE_SECONDS
    assert found == {"kafka-102": {"10.0.0.2"}, "127.0.0.5": {"127.0.0.5"}}


async def test_a_name_server_that_falls_silent_takes_no_address_away(resolver: Resolver, autojump_clock: Clock) -> None:
    names = HostNames()
    before = await names.look_up(["kafka-102"])
    resolver.silent = True
    assert await names.look_up(["kafka-102", "kafka-103"]) == before
    assert await names.look_up(["kafka-103"]) == {}
    assert await names.look_up(["kafka-102"]) == {}, "a broker that has left is forgotten"


async def test_a_broker_may_claim_any_number_of_names(resolver: Resolver, autojump_clock: Clock) -> None:
    await HostNames().look_up(f"kafka-{number}" for number in range(10 * MAX_HOSTS))
    assert resolver.asked == MAX_HOSTS


async def test_the_question_for_places_is_answered_within_the_bound(
    resolver: Resolver, autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had no bound: one silent name held up for as long as the name server liked."""

    async def hosts(*_: object) -> frozenset[str]:
        await trio.lowlevel.checkpoint()
        return frozenset({"silent", "kafka-102"})

    monkeypatch.setattr(questions, "ask_metadata", hosts)
    with trio.fail_after(2 * RESOLVE_SECONDS):
        found = await BrokerAddressQuestion(lambda: True, lambda _: None).ask(None)
    assert found == {"10.0.0.2"}
