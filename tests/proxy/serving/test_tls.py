"""A sidecar with keys on both legs: what goes through it, who does not get through, and who does not notice."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import ssl
import subprocess
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from lab.brokers.authority import Authority
from protocol.fetch.request import parse_fetch_request
from protocol.wire.framing import with_length
from proxy.config.settings import load_settings
from proxy.tls.handshakes import Reason
from tests.proxy.clients.frames import produce_request, produce_response, told_ms
from tests.proxy.conversation import fetch_frame
from tests.proxy.relay.wire import answer, entry, read_frame
from tests.proxy.serving.test_sidecar import TWO, Running, port, running, until, write_quotas
from tests.proxy.tls.stage import MUTUAL_TLS, NAME

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from proxy.config.settings import Settings

SETTINGS = """
[broker]
id = 101
[ingress]
listen = "127.0.0.1:0"
upstream = "127.0.0.1:{upstream}"
[http]
listen = "127.0.0.1:0"
[limits]
max_memory = "64GiB"  # this process has what all tests before have left
"""
NO_FRAMES = b"\x16\x03\x01\x00"
"""What TLS begins with: from there on bytes pass as they come."""
KAFKA = bytes.fromhex("00000014001200030000000100047465737400000000000000")
HALF_A_HELLO = bytes.fromhex("160301020001000" + "1fc0303") + bytes(100)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path)
    made.issue("own.pem", [NAME])
    write_quotas(tmp_path, '"unlimited"')
    return made


def settings(folder: Path, upstream: int) -> Settings:
    path = folder / "proxy.toml"
    path.write_text(SETTINGS.format(upstream=upstream) + MUTUAL_TLS)
    return load_settings(path)


def contexts(authority: Authority) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The leader's, the follower's."""
    own = authority.certificate.with_name("own.pem")
    leader = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leader.load_verify_locations(authority.certificate)
    leader.verify_mode = ssl.CERT_REQUIRED
    follower = ssl.create_default_context(cafile=authority.certificate)
    for context in (leader, follower):
        context.load_cert_chain(own)
    return leader, follower


@asynccontextmanager
async def listening() -> AsyncIterator[trio.SocketListener]:
    async with (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0] as found:
        yield found


async def met(
    sidecar: Running, listener: trio.SocketListener, authority: Authority
) -> tuple[trio.SSLStream[trio.SocketStream], trio.SSLStream[trio.SocketStream]]:
    """A follower and the leader it reached, both by TLS."""
    leader, follower = contexts(authority)
    asks = trio.SSLStream(await sidecar.dial(), follower, server_hostname=NAME, https_compatible=True)
    found: list[trio.SSLStream[trio.SocketStream]] = []

    async def accept() -> None:
        found.append(trio.SSLStream(await listener.accept(), leader, server_side=True, https_compatible=True))
        await found[0].do_handshake()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        await asks.do_handshake()
    return asks, found[0]


async def received(stream: trio.abc.ReceiveStream, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        got += await stream.receive_some(65_536)
    return bytes(got)


@pytest.mark.parametrize(("user", "is_told"), [(f"CN={NAME}", True), ("CN=other", False), ("ANONYMOUS", False)])
async def test_the_subject_of_a_certificate_is_a_user(
    tmp_path: Path, authority: Authority, user: str, *, is_told: bool
) -> None:
    (tmp_path / "quotas.toml").write_text(f'[users."{user}"]\nproducer_byte_rate = 1000\n')
    request = with_length(produce_request(61_000))
    async with listening() as leader, running(settings(tmp_path, port(leader))) as sidecar:
        at_leader, at_follower = contexts(authority)
        asks = trio.SSLStream(await sidecar.dial(), at_follower, server_hostname=NAME, https_compatible=True)
        async with asks, AsyncExitStack() as accepted, trio.open_nursery() as nursery:
            nursery.start_soon(asks.send_all, request)
            asked = b""
            while asked[:4] != request[:4]:  # a question that the sidecar asks by itself comes first
                tells = trio.SSLStream(await leader.accept(), at_leader, server_side=True, https_compatible=True)
                accepted.push_async_callback(trio.aclose_forcefully, tells)
                asked = await received(tells, 4)
            if len(asked) < len(request):
                asked += await received(tells, len(request) - len(asked))
            assert asked == request
            await tells.send_all(with_length(produce_response()))
            answer = await received(asks, len(with_length(produce_response())))
            assert (told_ms(answer[4:]) > 50_000) is is_told


@pytest.mark.parametrize("polled", [True, False], ids=["epoll", "Trio waits"])
async def test_bytes_go_both_ways_at_once_as_they_came(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch, *, polled: bool
) -> None:
    if not polled:
        monkeypatch.delattr(select, "epoll")
    there = NO_FRAMES + random.Random(1).randbytes(3_000_000)
    back = random.Random(2).randbytes(5_000_000)
    async with listening() as listener, running(settings(tmp_path, port(listener))) as sidecar:
        follower, leader = await met(sidecar, listener, authority)
        results: dict[str, bytes] = {}

        async def take(end: str, stream: trio.abc.ReceiveStream, size: int) -> None:
            results[end] = await received(stream, size)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take, "leader", leader, len(there))
            nursery.start_soon(take, "follower", follower, len(back))
            nursery.start_soon(follower.send_all, there)
            nursery.start_soon(leader.send_all, back)
        assert results == {"leader": there, "follower": back}
        for stream in (follower, leader):
            await trio.aclose_forcefully(stream)


async def test_what_is_encrypted_is_throttled(tmp_path: Path, authority: Authority) -> None:
    async with listening() as listener:
        write_quotas(tmp_path, "0")
        async with running(settings(tmp_path, port(listener))) as sidecar:
            follower, leader = await met(sidecar, listener, authority)
            await follower.send_all(with_length(fetch_frame(TWO)))
            first = parse_fetch_request(await read_frame(leader))
            assert {each.partition_max_bytes for each in first.entries} == {1}
            await leader.send_all(with_length(answer([entry(0), entry(1)])))
            await read_frame(follower)
            await follower.send_all(with_length(fetch_frame(TWO)))
            # Behind, and the quota is 0: nobody is asked, and an empty answer comes after max_wait_ms.
            await read_frame(follower)
            assert sidecar.statistics.leader.omitted_partitions > 0
            assert sum(sidecar.statistics.leader.undecoded.values()) == 0
            for stream in (follower, leader):
                await trio.aclose_forcefully(stream)


async def test_strangers_cost_themselves_and_a_victim_does_not_notice(tmp_path: Path, authority: Authority) -> None:
    async with listening() as listener, running(settings(tmp_path, port(listener))) as sidecar:
        follower, leader = await met(sidecar, listener, authority)

        async def stranger(says: bytes) -> None:
            async with await sidecar.dial() as stream:
                with trio.move_on_after(1.5), contextlib.suppress(trio.BrokenResourceError):
                    await stream.send_all(says)
                    while await stream.receive_some(4096):
                        pass

        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(stranger, (KAFKA, HALF_A_HELLO, b"\x16", bytes(200))[number % 4])
            for number in range(30):
                said = with_length(b"\0\x12\0\0\0\0\0" + bytes([number]) + b"\xff\xff")
                await follower.send_all(said)
                assert await received(leader, len(said)) == said
                told = with_length(b"\0\0\0" + bytes([number]) + b"x" * 100)
                await leader.send_all(told)
                assert await received(follower, len(told)) == told
        lines = [line for line in sidecar.log.lines if line["event"] == "tls_handshake_failed"]
        assert {line["reason"] for line in lines} <= {reason.value for reason in Reason}
        assert len(lines) == len({line["reason"] for line in lines})
        newcomer, reached = await met(sidecar, listener, authority)
        for stream in (follower, leader, newcomer, reached):
            await trio.aclose_forcefully(stream)


async def test_nothing_goes_to_a_leader_in_plaintext_or_to_the_wrong_one(tmp_path: Path, authority: Authority) -> None:
    """A leader that speaks no TLS sees a ClientHello, and nothing of what its follower said."""
    _, context = contexts(authority)
    async with listening() as listener, running(settings(tmp_path, port(listener))) as sidecar:
        follower = trio.SSLStream(await sidecar.dial(), context, server_hostname=NAME, https_compatible=True)
        seen = bytearray()

        async def leader() -> None:
            async with await listener.accept() as stream:
                seen.extend(await stream.receive_some(4096))
                await stream.send_all(KAFKA)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(leader)
            await follower.send_all(b"secret of the follower")
            with pytest.raises((trio.BrokenResourceError, AssertionError)):
                assert await follower.receive_some(1)
        assert seen.startswith(b"\x16\x03")
        assert b"secret" not in seen
        await until(lambda: any(line["event"] == "connection_closed" for line in sidecar.log.lines))
        (failed,) = [line for line in sidecar.log.lines if line["event"] == "tls_handshake_failed"]
        assert (failed["leg"], failed["reason"]) == ("ingress.upstream", Reason.PLAINTEXT.value)
        await trio.aclose_forcefully(follower)


async def test_a_peer_that_vanishes_in_mid_record_ends_that_connection(tmp_path: Path, authority: Authority) -> None:
    async with listening() as listener, running(settings(tmp_path, port(listener))) as sidecar:
        follower, leader = await met(sidecar, listener, authority)
        await follower.send_all(with_length(b"\0\x12\0\0\0\0\0\x01\xff\xff"))
        await received(leader, 14)
        plain = follower.transport_stream
        await plain.send_all(b"\x17\x03\x03\x10\x00half a record")
        plain.socket.shutdown(socket.SHUT_WR)
        with pytest.raises((trio.BrokenResourceError, AssertionError)):
            assert await leader.receive_some(1)
        for stream in (follower, leader):
            await trio.aclose_forcefully(stream)
        await until(lambda: "connection_closed" in sidecar.log.events)


async def test_keys_are_replaced_in_mid_connection(tmp_path: Path, authority: Authority) -> None:
    """RFC 8446, 4.6.3: Java asks for it after 137 GB of one key (jdk.tls.keyLimits); here the openssl program does."""
    leader_context, _ = contexts(authority)
    own, trusted = str(authority.certificate.with_name("own.pem")), str(authority.certificate)
    async with listening() as listener, running(settings(tmp_path, port(listener))) as sidecar:
        to = "{}:{}".format(*sidecar.addresses["ingress.listen"])
        command = ["openssl", "s_client", "-connect", to, "-cert", own, "-key", own, "-CAfile", trusted, "-tls1_3"]
        async with trio.open_nursery() as nursery:
            options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            client = await nursery.start(partial(trio.run_process, command, check=False, **options))
            reached = await listener.accept()
            leader = trio.SSLStream(reached, leader_context, server_side=True, https_compatible=True)
            await leader.do_handshake()
            said, told = bytearray(), bytearray()
            for number, line in enumerate((NO_FRAMES + b"first\n", b"second\n", b"third\n")):
                if number:
                    await client.stdin.send_all(b"K\n")
                while told.count(b"KEYUPDATE") < number:  # one letter at a time is a command of the program's
                    told += await client.stdout.receive_some()
                await client.stdin.send_all(line)
                said += await received(leader, len(line))
            await leader.send_all(b"by the new keys")
            while b"by the new keys" not in told:
                told += await client.stdout.receive_some()
            client.kill()
            await trio.aclose_forcefully(leader)
        assert bytes(said) == NO_FRAMES + b"first\nsecond\nthird\n"
        assert told.count(b"KEYUPDATE") == 2
