"""Listening: The documented example works, and nobody shares a port unasked."""

from __future__ import annotations

import socket

import pytest
import trio

from lab.host.addresses import held_ports
from proxy.config.settings import Address
from proxy.network.listening import CannotListenError, open_listeners
from proxy.relay.transport import SEGMENT_BYTES


async def who_answers(listeners: list[trio.SocketListener], address: str, port: int) -> int:
    """Index of the listener that a connection to `address` reaches."""
    reached: list[int] = []

    async def accept(index: int) -> None:
        async with await listeners[index].accept():
            reached.append(index)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for index in range(len(listeners)):
            nursery.start_soon(accept, index)
        async with await trio.open_tcp_stream(address, port):
            await trio.sleep(20)
    return reached[0]


async def test_every_interface_and_one_of_them_share_a_port_and_the_specific_one_gets_its_own() -> None:
    with held_ports(1) as (port,):
        listeners = await open_listeners([Address("0.0.0.0", port), Address("127.0.102.1", port)])
        assert await who_answers(listeners, "127.0.102.1", port) == 1
        assert await who_answers(listeners, "127.0.0.1", port) == 0
        for listener in listeners:
            await listener.aclose()


@pytest.mark.parametrize("ours", ["0.0.0.0", "127.0.102.1"])
async def test_a_second_sidecar_is_refused_and_nothing_stays_open(ours: str) -> None:
    with held_ports(2) as (port, free):
        first = await open_listeners([Address("0.0.0.0", port), Address("127.0.102.1", port)])
        other = Address("127.0.0.1", free)
        with pytest.raises(CannotListenError, match=r"cannot listen on .*: Address already in use") as refused:
            await open_listeners([other, Address(ours, port)])
        assert refused.value.index == 1
        again = await open_listeners([other])
        for listener in [*first, *again]:
            await listener.aclose()


@pytest.mark.parametrize("both", [False, True])
async def test_every_interface_is_also_ipv4s_only_where_it_is_asked_for(both: bool) -> None:
    with held_ports(1) as (port,):
        address = Address("::", port)
        (listener,) = await open_listeners([address], dual_stack={address} if both else ())
        async with listener:
            assert await who_answers([listener], "::1", port) == 0
            with socket.socket() as probe:
                assert (probe.connect_ex(("127.0.0.1", port)) == 0) == both


async def test_an_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(CannotListenError, match=r"cannot listen on 192\.0\.2\.1:9092: Cannot assign requested address"):
        await open_listeners([Address("192.0.2.1", 9092)])


@pytest.mark.parametrize("taken", [False, True], ids=["ours", "systemd's"])
@pytest.mark.parametrize("encrypted", [False, True])
async def test_segments_are_bounded_where_openssl_writes(taken: bool, encrypted: bool) -> None:
    """Segments of 64 KiB into 64 KiB of room: waits of 200 ms in the middle of an answer."""
    listening = socket.create_server(("127.0.0.1", 0)) if taken else None
    address = Address("127.0.0.1", 0) if listening is None else Address(*listening.getsockname())
    (listener,) = await open_listeners([address], encrypted={address} if encrypted else (), taken=[listening])
    address = Address(*listener.socket.getsockname())
    async with listener, await trio.open_tcp_stream(*address), await listener.accept() as accepted:
        segment_bytes = accepted.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        assert (segment_bytes <= SEGMENT_BYTES) is encrypted
