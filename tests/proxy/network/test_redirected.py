"""Redirected connections: whom they were for, and which are refused. With the kernel's own rules: tests/deploy."""

from __future__ import annotations

import errno
import os
import socket
import struct
from dataclasses import dataclass

import pytest
import trio

from lab.host.addresses import held_ports
from proxy.config.settings import Address
from proxy.network.redirected import SO_ORIGINAL_DST, Redirected, Refusal, RefusedError, original_destination

LISTENER = 15001
V4 = struct.pack("!HH4s8x", socket.AF_INET, 9092, socket.inet_aton("10.0.0.2"))
V6 = struct.pack("!HHI16sI", socket.AF_INET6, 9093, 7, socket.inet_pton(socket.AF_INET6, "fd00::2"), 0)
UNTRACKED = OSError(errno.ENOENT, os.strerror(errno.ENOENT))


@dataclass
class Accepted:
    """A socket as the kernel would give it; `answers` by the level that is asked."""

    family: socket.AddressFamily
    peer: tuple[str, int]
    here: tuple[str, int]
    answers: dict[int, bytes | OSError]

    def getpeername(self) -> tuple[str, int]:
        return self.peer

    def getsockname(self) -> tuple[str, int]:
        return self.here

    def getsockopt(self, level: int, name: int, size: int, /) -> bytes:
        assert name == SO_ORIGINAL_DST
        answer = self.answers[level]
        if isinstance(answer, OSError):
            raise answer
        assert len(answer) == size
        return answer


PLAIN = Accepted(socket.AF_INET, ("10.0.0.1", 40000), ("127.0.0.1", LISTENER), {socket.SOL_IP: V4})
MAPPED = Accepted(socket.AF_INET6, ("::ffff:10.0.0.1", 40000), ("::ffff:127.0.0.1", LISTENER), {socket.SOL_IP: V4})
SIX = Accepted(socket.AF_INET6, ("fd00::1", 40000), ("::1", LISTENER), {socket.IPPROTO_IPV6: V6})


@pytest.mark.parametrize(
    ("accepted", "destination"),
    [(PLAIN, Address("10.0.0.2", 9092)), (MAPPED, Address("10.0.0.2", 9092)), (SIX, Address("fd00::2", 9093))],
    ids=["IPv4", "IPv4 on a dual-stack listener", "IPv6"],
)
def test_whom_it_was_for(accepted: Accepted, destination: Address) -> None:
    assert original_destination(accepted) == destination
    assert Redirected().destination(accepted) == destination


@pytest.mark.parametrize(
    ("here", "answer", "told"),
    [
        (("10.0.0.2", 9092), V4, Address("10.0.0.2", 9092)),
        (("::ffff:10.0.0.2", 9092), V4, Address("10.0.0.2", 9092)),
        (("127.0.0.1", LISTENER), UNTRACKED, None),
    ],
    ids=["itself", "itself, mapped", "nothing known"],
)
def test_who_dials_the_listener_is_refused(
    here: tuple[str, int], answer: bytes | OSError, told: Address | None
) -> None:
    family = socket.AF_INET6 if here[0].startswith("::") else socket.AF_INET
    peer = "::ffff:10.0.0.1" if family == socket.AF_INET6 else "10.0.0.1"
    with pytest.raises(RefusedError) as refused:
        Redirected().destination(Accepted(family, (peer, 40000), here, {socket.SOL_IP: answer}))
    assert (refused.value.reason, refused.value.destination) == (Refusal.NOT_REDIRECTED, told)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_our_own_connection_is_refused_while_it_lasts(host: str) -> None:
    redirected = Redirected()
    async with (await trio.open_tcp_listeners(0, host=host))[0] as listener:
        at = Address(host, listener.socket.getsockname()[1])
        with redirected.dialling() as dial:
            ours = await dial(at, timeout_seconds=20)
            async with await listener.accept() as met:
                from_us = Accepted(socket.AF_INET, ("10.0.0.1", met.socket.getpeername()[1]), PLAIN.here, PLAIN.answers)
                with pytest.raises(RefusedError) as refused:
                    redirected.destination(from_us)
            ours.close()
    assert refused.value.reason is Refusal.OWN_CONNECTION
    assert redirected.destination(from_us) == Address("10.0.0.2", 9092)


async def test_nobody_there_is_an_error_and_no_socket_stays() -> None:
    with held_ports(1) as (free,), Redirected().dialling() as dial, pytest.raises(ConnectionRefusedError):
        await dial(Address("127.0.0.1", free), timeout_seconds=20)


async def test_no_answer_is_an_error_in_time(autojump_clock: trio.testing.MockClock) -> None:
    # A listener whose backlog is full answers nobody.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        at = Address(*full.getsockname())
        no_answer = pytest.raises(TimeoutError, match="no answer within 3 s")
        with socket.create_connection(at), Redirected().dialling() as dial, no_answer:
            await dial(at, timeout_seconds=3)
