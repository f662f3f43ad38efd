"""Whatever is wrong with a handshake costs its connection, has a word of its own, and is told once."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import socket
import ssl
import struct
import time
from typing import TYPE_CHECKING

import pytest
import trio
from cryptography import x509

from proxy.config.tls_settings import ClientAuth, StoreSettings
from proxy.relay.tls_socket import TlsSocket
from proxy.relay.transport import WOULD_WAIT
from proxy.tls.contexts import load
from proxy.tls.handshakes import HandshakeError, Reason
from proxy.tls.leg import MAX_WARNED

from .stage import NAME, X400_NAME, Keys, connected, made, pair

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from proxy.tls.leg import Leg

KAFKA_REQUEST = b"\x00\x00\x00\x14\x00\x12\x00\x03\x00\x00\x00\x01\x00\x04test\x00\x00\x00"


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "tls")


@pytest.fixture
def stranger(tmp_path: Path) -> Keys:
    """Of an authority that nobody else believes."""
    return Keys(tmp_path / "stranger", name="stranger")


def extension(kind: int, content: bytes) -> bytes:
    return struct.pack(">HH", kind, len(content)) + content


def hello_by(group: int, share: bytes, *, padding: int = 0) -> bytes:
    """A ClientHello of TLS 1.3 that agrees on keys by this group alone (RFC 8446, 4.1.2), without its record."""
    extensions = [
        extension(43, b"\x02\x03\x04"),
        extension(13, b"\x00\x06\x08\x04\x04\x03\x04\x01"),
        extension(10, struct.pack(">HH", 2, group)),
        extension(51, struct.pack(">HHH", 4 + len(share), group, len(share)) + share),
        extension(21, bytes(padding)),
    ]
    told = b"".join(extensions)
    body = b"\x03\x03" + os.urandom(32) + b"\0" + b"\0\2\x13\x01" + b"\1\0" + struct.pack(">H", len(told)) + told
    return b"\1" + len(body).to_bytes(3, "big") + body


def in_records(message: bytes, size: int) -> bytes:
    pieces = (message[at : at + size] for at in range(0, len(message), size))
    return b"".join(b"\x16\x03\x01" + struct.pack(">H", len(piece)) + piece for piece in pieces)


async def refused(leg: Leg, peer_does: Callable[[socket.socket], object], *, dials: bool = False) -> HandshakeError:
    """The error of a handshake with a peer that does this, in a thread; both ends are closed then."""
    plain, peer = pair()
    number = plain.fileno()

    def behave() -> None:
        with peer, contextlib.suppress(OSError):
            peer_does(peer)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, behave)
        with pytest.raises(HandshakeError) as raised:
            await (leg.dial(plain.sock, NAME) if dials else leg.accept(plain.sock, peer="10.0.0.2"))
    with pytest.raises(OSError, match="Bad file descriptor"):
        socket.socket(fileno=number)
    return raised.value


def waits(peer: socket.socket) -> None:
    while peer.recv(4096):
        pass


def speaks(content: bytes) -> Callable[[socket.socket], object]:
    def speak(peer: socket.socket) -> None:
        peer.sendall(content)
        waits(peer)

    return speak


def dials(context: ssl.SSLContext) -> Callable[[socket.socket], object]:
    def dial(peer: socket.socket) -> None:
        with context.wrap_socket(peer, server_hostname=NAME) as secured:
            secured.recv(1)

    return dial


def half_a_handshake(peer: socket.socket) -> None:
    """The first half of a real ClientHello, and nothing more."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=NAME)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    peer.sendall(hello[: len(hello) // 2])


@pytest.mark.parametrize(
    ("peer_does", "reason"),
    [
        (speaks(KAFKA_REQUEST), Reason.PLAINTEXT),
        (speaks(b"GET / HTTP/1.1\r\n\r\n"), Reason.PLAINTEXT),
        (speaks(bytes(range(255, 200, -1))), Reason.PLAINTEXT),
        (half_a_handshake, Reason.CLOSED),
        (lambda _: None, Reason.CLOSED),
    ],
    ids=["Kafka", "HTTP", "noise", "half a hello", "nothing"],
)
async def test_what_is_no_handshake(keys: Keys, peer_does: Callable[[socket.socket], object], reason: Reason) -> None:
    leg, log = made(keys.listen())
    for _ in range(3):
        error = await refused(leg, peer_does)
        assert error.reason is reason
    assert leg.failures == {reason: 3}
    assert [line["reason"] for line in log.lines] == [reason.value]
    assert log.lines[0]["advice"]


async def test_who_says_nothing_is_waited_for_so_long(keys: Keys) -> None:
    leg, _ = made(keys.listen(), seconds=0.05)
    assert (await refused(leg, waits)).reason is Reason.TIMEOUT


@pytest.mark.parametrize("maximum", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_without_a_certificate_does_not_get_in(keys: Keys, maximum: ssl.TLSVersion) -> None:
    leg, _ = made(keys.listen(ClientAuth.REQUIRED))
    context = keys.client()
    context.maximum_version = maximum

    assert (await refused(leg, dials(context))).reason is Reason.NO_CERTIFICATE


async def test_a_client_of_another_authority_does_not_get_in(keys: Keys, stranger: Keys) -> None:
    leg, _ = made(keys.listen(ClientAuth.REQUESTED))
    context = keys.client(presents=stranger.own)
    error = await refused(leg, dials(context))
    assert error.reason is Reason.UNKNOWN_AUTHORITY


@pytest.mark.parametrize("dialled", [False, True])
async def test_a_certificate_for_another_purpose_is_no_question_of_authorities(keys: Keys, *, dialled: bool) -> None:
    """A broker's that is for servers alone, say: to add its authority, which is there, would not help."""
    names = x509.SubjectAlternativeName([x509.DNSName(NAME)])
    purpose = x509.ExtendedKeyUsageOID.CLIENT_AUTH if dialled else x509.ExtendedKeyUsageOID.SERVER_AUTH
    other = keys.issue_with("other.pem", [names, x509.ExtendedKeyUsage([purpose])])
    leg, log = made(keys.upstream() if dialled else keys.listen(ClientAuth.REQUIRED))
    peer_does = accepts(keys.server(presents=other)) if dialled else dials(keys.client(presents=other))
    assert (await refused(leg, peer_does, dials=dialled)).reason is Reason.OTHER
    assert log.lines[0]["error"] == "unsuitable certificate purpose"


async def test_a_client_whose_certificate_has_expired_does_not_get_in(keys: Keys) -> None:
    leg, _ = made(keys.listen(ClientAuth.REQUIRED))
    old = keys.authority.issue("old.pem", [NAME], expires=dt.datetime.now(dt.UTC) - dt.timedelta(hours=1))
    context = keys.client(presents=old)
    error = await refused(leg, dials(context))
    assert error.reason is Reason.EXPIRED


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_of_another_name_does_not_get_in_where_names_are_listed(
    keys: Keys, newest: ssl.TLSVersion
) -> None:
    """It would be the sidecar's own principal to the broker. Not by resuming a session either."""
    leg, log = made(keys.listen(ClientAuth.REQUIRED, allowed_names=("KAFKA-10[0-9]", "10.0.0.1")))
    context, session = keys.client(presents=keys.own), None
    context.maximum_version = newest
    for _ in range(2):
        async with connected(leg, context, session=session) as (own, peer):
            own.send(b"x")
            peer.recv(1)
            session = peer.session
    assert leg.handshakes_done == 2
    client = keys.client(presents=keys.authority.issue("client.pem", ["billing", "kafka-1010"]))
    client.maximum_version = newest
    assert (await refused(leg, dials(client))).reason is Reason.NOT_ALLOWED
    assert leg.handshakes_done == 2
    assert leg.failures == {Reason.NOT_ALLOWED: 1}
    assert '"billing", "kafka-1010"' in log.lines[0]["error"]
    address = keys.authority.issue("address.pem", ["10.0.0.1"])
    async with connected(leg, keys.client(presents=address)):
        pass


async def test_a_client_whose_names_cannot_be_read_does_not_get_in_where_names_are_listed(keys: Keys) -> None:
    """OpenSSL takes kinds of names that are not read here: none of them is allowed, and the connection is closed."""
    leg, _ = made(keys.listen(ClientAuth.REQUIRED, allowed_names=("*",)))
    client = keys.client(presents=keys.issue_with("odd.pem", [X400_NAME]))
    assert (await refused(leg, dials(client))).reason is Reason.NOT_ALLOWED


async def test_a_client_that_does_not_believe_us_says_so(keys: Keys, stranger: Keys) -> None:
    leg, _ = made(keys.listen())
    context = stranger.client()
    error = await refused(leg, dials(context))
    assert error.reason is Reason.REFUSED


async def test_whose_handshakes_fail_is_a_warning_until_one_succeeds(
    keys: Keys, stranger: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong authority cut a follower off, and /readyz had no warning."""
    leg, _ = made(keys.listen(ClientAuth.REQUESTED))
    await refused(leg, dials(keys.client(presents=stranger.own)))
    (warning,) = leg.warnings
    assert warning == (
        'ingress.listen: TLS handshakes with "10.0.0.2" fail (unknown_authority): its certificate is not of an '
        "authority in ssl.truststore.location: add that authority"
    )
    async with connected(leg, keys.client()):
        assert leg.warnings == []
    await refused(leg, dials(stranger.client()))
    assert ["(refused)" in warning for warning in leg.warnings] == [True]
    monkeypatch.setattr("proxy.tls.leg.FAILS_SECONDS", -1.0)
    assert leg.warnings == []


async def test_a_health_check_that_only_connects_is_no_warning_and_a_leader_that_closes_is_one(keys: Keys) -> None:
    listens, _ = made(keys.listen())
    await refused(listens, lambda _: None)
    upstream, _ = made(keys.upstream())
    await refused(upstream, lambda _: None, dials=True)
    assert (listens.warnings, ["(closed)" in warning for warning in upstream.warnings]) == ([], [True])


async def test_so_many_peers_are_named_and_the_others_counted(keys: Keys) -> None:
    leg, _ = made(keys.upstream())
    for number in range(MAX_WARNED + 3):
        plain, peer = pair()
        with pytest.raises(HandshakeError), peer:
            await leg.dial(plain.sock, f".kafka-{number}")
    assert len(leg.warnings) == MAX_WARNED + 1
    assert leg.warnings[-1] == "ingress.upstream: TLS handshakes with 3 others fail"


async def test_versions_that_nobody_has_in_common(keys: Keys) -> None:
    leg, _ = made(keys.listen(minimum=ssl.TLSVersion.TLSv1_3))
    context = keys.client()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    error = await refused(leg, dials(context))
    assert error.reason is Reason.NOTHING_IN_COMMON


def accepts(context: ssl.SSLContext) -> Callable[[socket.socket], object]:
    def accept(peer: socket.socket) -> None:
        # From Python 3.13 on a reset is one, and no end.
        with context.wrap_socket(peer, server_side=True) as secured, contextlib.suppress(ConnectionResetError):
            secured.recv(1)

    return accept


async def test_whom_we_dial_has_to_be_whom_we_mean(keys: Keys, stranger: Keys) -> None:
    expired = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    leg, log = made(keys.upstream())
    other = keys.authority.issue("other.pem", ["kafka-102"])
    old = keys.authority.issue("old.pem", [NAME], expires=expired)
    cases = {
        Reason.WRONG_NAME: accepts(keys.server(presents=other)),
        Reason.UNKNOWN_AUTHORITY: accepts(stranger.server()),
        Reason.EXPIRED: accepts(keys.server(presents=old)),
        Reason.PLAINTEXT: speaks(KAFKA_REQUEST),
        Reason.CLOSED: lambda _: None,
    }
    for reason, peer_does in cases.items():
        assert (await refused(leg, peer_does, dials=True)).reason is reason
    assert [line["reason"] for line in log.lines] == [reason.value for reason in cases]


async def test_a_name_that_no_certificate_can_have_costs_the_connection(keys: Keys) -> None:
    """By which a redirected connection was dialled is what its client says by SNI, and may be anything."""
    leg, log = made(keys.upstream())
    for name in ("kafka..101", ".kafka"):
        plain, peer = pair()
        with pytest.raises(HandshakeError, match="no certificate can have the name"), peer:
            await leg.dial(plain.sock, name)
        assert plain.fileno() == -1
    assert leg.failures == {Reason.OTHER: 2}
    assert len(log.lines) == 2


async def test_another_name_is_accepted_only_where_names_are_not_verified(keys: Keys) -> None:
    leg, _ = made(keys.upstream(verifies_names=False))
    plain, peer = pair()
    other = keys.server(presents=keys.authority.issue("other.pem", ["kafka-102"]))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, accepts(other), peer)
        (await leg.dial(plain.sock, NAME)).sock.close()
    assert leg.handshakes_done == 1


async def test_a_certificate_that_is_refused_after_our_handshake_counts_as_well(keys: Keys) -> None:
    """In TLS 1.3 a server judges a client's certificate when the client believes it is through."""
    leg, _ = made(keys.upstream(keystores=()))
    plain, peer = pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, accepts_quietly(keys.server(asks=True)), peer)
        shaken = await leg.dial(plain.sock, NAME)
        secured = TlsSocket(shaken.sock, shaken.refused)
        with pytest.raises(ssl.SSLError):
            await received(secured)
        secured.close()
    assert leg.failures == {Reason.REFUSED: 1}


async def received(secured: TlsSocket) -> None:
    while secured.receive_into(memoryview(bytearray(10))) == WOULD_WAIT:
        await trio.lowlevel.wait_readable(secured.fileno())


def accepts_quietly(context: ssl.SSLContext) -> Callable[[socket.socket], object]:
    def accept(peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            accepts(context)(peer)

    return accept


async def test_the_certificate_is_the_one_of_the_name_that_is_dialled(keys: Keys) -> None:
    other = keys.authority.issue("other.pem", ["kafka-102"])
    leg, _ = made(keys.listen(keystores=(StoreSettings(keys.own), StoreSettings(other))))
    for name in ("kafka-102", NAME):
        async with connected(leg, keys.client(), name=name) as (_, peer):
            assert dict(peer.getpeercert() or {})["subjectAltName"] == (("DNS", name),)


async def test_without_sni_it_is_the_one_of_whom_the_connection_is_for(keys: Keys) -> None:
    other = keys.authority.issue("other.pem", ["127.0.0.9"])
    leg, _ = made(keys.listen(keystores=(StoreSettings(keys.own), StoreSettings(other))))
    plain, peer = pair()
    ends: list[ssl.SSLSocket] = []
    dial = keys.client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            trio.to_thread.run_sync, lambda: ends.append(dial.wrap_socket(peer, server_hostname="127.0.0.9"))
        )
        shaken = await leg.accept(plain.sock, peer="kafka-9", names=["kafka-9", "127.0.0.9"])
    assert shaken.asked is None
    shaken.sock.close()
    ends[0].close()


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_who_dials_again_resumes_until_the_keys_are_renewed(keys: Keys, newest: ssl.TLSVersion) -> None:
    """RFC 5077, RFC 8446 2.2: half the cost. With new keys, perhaps of other authorities, nobody does."""
    leg, _ = made(keys.listen(ClientAuth.REQUIRED))
    context = keys.client(presents=keys.own)
    context.maximum_version = newest
    session, resumed = None, []
    for renews in (False, False, True):
        if renews:
            leg.loaded = load(leg.settings)
        async with connected(leg, context, session=session) as (own, peer):
            # A ticket of TLS 1.3 comes after the handshake, with the first bytes.
            own.send(b"x")
            peer.recv(1)
            session = peer.session
            resumed.append(peer.session_reused)
    assert resumed == [False, True, False]


async def test_what_is_known_of_whom_it_told_is_bounded(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.tls.leg.MAX_REMEMBERED", 2)
    leg, log = made(keys.listen())
    for number in range(5):
        plain, peer = pair()
        peer.close()
        with pytest.raises(HandshakeError):
            await leg.accept(plain.sock, peer=str(number))
    assert len(leg._told) <= 2
    assert len(log.lines) == 5


@pytest.mark.parametrize(("group", "share_bytes"), [(0x0104, 1024), (0x0102, 512), (0x0100, 256), (0x001E, 56)])
async def test_who_dials_has_no_choice_of_how_keys_are_agreed_on(keys: Keys, group: int, share_bytes: int) -> None:
    """By ffdhe8192, which OpenSSL offers as well, a hello of 1.2 KB cost 120 ms of a core: eight in a second stopped
    the loop."""
    leg, _ = made(keys.listen())
    hello = in_records(hello_by(group, b"\x40" + os.urandom(share_bytes - 1)), 16_384)

    def dial(peer: socket.socket) -> None:
        peer.sendall(hello)
        peer.recv(100)

    took = []
    for _ in range(3):
        began = time.thread_time()
        error = await refused(leg, dial)
        took.append(time.thread_time() - began)
        assert error.reason is Reason.NOTHING_IN_COMMON
    assert min(took) < 0.1  # a core that is shared with other machines is several times slower now and then


@pytest.mark.parametrize("curve", [None, "prime256v1"])
@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_whoever_has_p_256_agrees_on_keys(keys: Keys, newest: ssl.TLSVersion, curve: str | None) -> None:
    """Also who had hoped for X25519, as OpenSSL does."""
    leg, _ = made(keys.listen())
    client = keys.client()
    client.maximum_version = newest
    if curve is not None:
        client.set_ecdh_curve(curve)
    async with connected(leg, client) as (_, peer):
        assert peer.version() == {ssl.TLSVersion.TLSv1_2: "TLSv1.2", ssl.TLSVersion.TLSv1_3: "TLSv1.3"}[newest]


@pytest.mark.parametrize("before", [0, 1, 4, 100])
async def test_a_hello_in_crumbs_is_refused(keys: Keys, before: int) -> None:
    """60 KB of it in records of one byte each cost 95 ms of a core in one step. `before`: bytes of it that OpenSSL has
    taken already, so that what is looked at begins anywhere in a record."""
    leg, _ = made(keys.listen())
    crumbs = in_records(hello_by(0x0017, b"\x04" + bytes(64), padding=3000), 1)
    plain, peer = pair()
    with peer:
        peer.sendall(crumbs[:before])
        async with trio.open_nursery() as nursery:
            if before:
                nursery.start_soon(send_later, peer, crumbs[before:])
            else:
                peer.sendall(crumbs)
            with pytest.raises(
                HandshakeError, match="it comes in crumbs: expected at most 128 small records"
            ) as raised:
                await leg.accept(plain.sock, peer="10.0.0.2")
    assert raised.value.reason is Reason.OTHER
    assert leg.failures == {Reason.OTHER: 1}


async def send_later(peer: socket.socket, data: bytes) -> None:
    await trio.sleep(0.1)
    peer.sendall(data)


@pytest.mark.parametrize("size", [1, 16, 300])
async def test_a_hello_in_some_pieces_is_taken(keys: Keys, size: int) -> None:
    """100 of them that are here at once: a record may have as little as one byte."""
    leg, _ = made(keys.listen())
    context, plain, own = keys.client(), *pair()
    with own:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname=NAME)

        def shake_hands() -> None:
            while True:
                try:
                    client.do_handshake()
                except ssl.SSLWantReadError:
                    pass
                else:
                    own.sendall(outgoing.read())
                    return
                said = outgoing.read()
                if said[:1] == b"\x16":
                    message = said[5 : 5 + int.from_bytes(said[3:5], "big")]
                    rest = said[5 + len(message) :]
                    said = in_records(message[:100], size) + in_records(message[100:], 16_384) + rest
                own.sendall(said)
                incoming.write(own.recv(65_536))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, shake_hands)
            shaken = await leg.accept(plain.sock, peer="10.0.0.2")
        shaken.sock.close()
