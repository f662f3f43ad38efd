"""The sidecar logs in as Kafka's own clients do; a password goes nowhere else."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
import sys
from typing import TYPE_CHECKING

import pytest
import trio

from protocol.errors import ProtocolError
from protocol.own_requests import SaslRefusedError
from proxy.cluster.broker_client import Broker, response_of
from proxy.cluster.login import Login
from proxy.config.names_settings import LoginSettings
from proxy.config.settings_values import Address
from proxy.config.tls_settings import Secret
from proxy.errors import ConfigurationError

from ..hanging_disk import hanging_disk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PASSWORD, SALT, ITERATIONS = "sesame", b"salt", 4096
NONCE = b"server"


def hashed(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha512).digest()


class ScramServer:
    """RFC 5802's server, for one user."""

    def __init__(self) -> None:
        self._said = b""
        self.accepted = False

    def answers(self, content: bytes) -> bytes | None:
        """None: refused."""
        if content.startswith(b"n,,"):
            bare = content[3:]
            nonce = bare.partition(b"r=")[2] + NONCE
            first = b"r=" + nonce + b",s=" + base64.b64encode(SALT) + b",i=" + str(ITERATIONS).encode()
            self._said = bare + b"," + first
            return first
        without_proof, _, proof = content.rpartition(b",p=")
        said = self._said + b"," + without_proof
        salted = hashlib.pbkdf2_hmac("sha512", PASSWORD.encode(), SALT, ITERATIONS)
        stored = hashlib.sha512(hashed(salted, b"Client Key")).digest()
        key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), hashed(stored, said), strict=True))
        self.accepted = hashlib.sha512(key).digest() == stored
        server_key = hashed(salted, b"Server Key")
        return b"v=" + base64.b64encode(hashed(server_key, said)) if self.accepted else None


class PlainServer:
    def __init__(self, expected: bytes) -> None:
        self._expected = expected

    def answers(self, content: bytes) -> bytes | None:
        return b"" if content == self._expected else None


def answering(mechanism: str, answers: Callable[[bytes], bytes | None]) -> Callable[[bytes], object]:
    """A broker that has one mechanism."""

    async def ask(frame: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        api_key, _, correlation_id, client_id = struct.unpack_from(">hhih", frame)
        body = frame[10 + client_id :]
        head = struct.pack(">i", correlation_id)
        if api_key == 17:
            error = 0 if body[2:].decode() == mechanism else 33
            return head + struct.pack(">hih", error, 1, len(mechanism)) + mechanism.encode()
        says = answers(body[4:])
        if says is None:
            return head + struct.pack(">hh4si", 58, 4, b"nope", 0)
        return head + struct.pack(">hhi", 0, -1, len(says)) + says

    return ask


def login(mechanism: str, password: str = PASSWORD, *, in_plaintext: bool = True) -> Login:
    return Login.open(LoginSettings(mechanism, "sidecar", Secret(password), in_plaintext=in_plaintext))


async def test_scram_proves_that_both_know_the_password() -> None:
    server = ScramServer()
    await login("SCRAM-SHA-512").run(answering("SCRAM-SHA-512", server.answers), client_id="me")
    assert server.accepted


async def test_a_wrong_password_is_refused_and_not_shown() -> None:
    wrong = login("SCRAM-SHA-512", "open barley")
    with pytest.raises(SaslRefusedError, match="login refused: nope") as raised:
        await wrong.run(answering("SCRAM-SHA-512", ScramServer().answers), client_id="me")
    assert "barley" not in str(raised.value)


async def test_a_server_that_does_not_know_the_password_is_none() -> None:
    def pretends(content: bytes) -> bytes:
        if content.startswith(b"n,,"):
            return b"r=" + content.partition(b"r=")[2] + NONCE + b",s=c2FsdA==,i=4096"
        return b"v=" + base64.b64encode(bytes(64))

    with pytest.raises(SaslRefusedError, match="SCRAM-SHA-512: ValueError"):
        await login("SCRAM-SHA-512").run(answering("SCRAM-SHA-512", pretends), client_id="me")


@pytest.mark.parametrize("says", [b"", b"nonsense", b"r=other,s=x,i=1", b"r=", b"i=99999999999"])
async def test_a_server_that_says_nonsense_is_refused(says: bytes) -> None:
    with pytest.raises(SaslRefusedError):
        await login("SCRAM-SHA-512").run(answering("SCRAM-SHA-512", lambda _: says), client_id="me")


async def test_a_number_of_iterations_that_no_machine_has_is_refused() -> None:
    def says(content: bytes) -> bytes:
        return b"r=" + content.partition(b"r=")[2] + NONCE + b",s=c2FsdA==,i=-99999999999999999999"

    with pytest.raises(SaslRefusedError, match="SCRAM-SHA-512: OverflowError"):
        await login("SCRAM-SHA-512").run(answering("SCRAM-SHA-512", says), client_id="me")


async def test_plain_and_a_mechanism_that_is_not_there() -> None:
    server = PlainServer(b"sidecar\0sidecar\0sesame")
    await login("PLAIN").run(answering("PLAIN", server.answers), client_id="me")
    with pytest.raises(SaslRefusedError, match="it has no PLAIN, but GSSAPI"):
        await login("PLAIN").run(answering("GSSAPI", server.answers), client_id="me")


async def test_a_token_is_read_anew_each_time_however_long_it_is(tmp_path: Path) -> None:
    file = tmp_path / "token"
    settings = LoginSettings("OAUTHBEARER", "", Secret(file=file))
    file.write_text("first")
    bearer = Login.open(settings)
    for token in ("first", "x" * 60_000):
        file.write_text(token + "\n")
        server = PlainServer(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
        await bearer.run(answering("OAUTHBEARER", server.answers), client_id="me")


def test_a_file_that_is_not_there_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="password: cannot be read"):
        Login.open(LoginSettings("PLAIN", "sidecar", Secret(file=tmp_path / "password")))


def test_without_kafka_python_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kafka.net.sasl.plain", None)
    with pytest.raises(ConfigurationError, match=r"PLAIN needs kafka-python: pip install '\.\[operator\]' in this"):
        login("PLAIN")


def test_a_disk_that_hangs_keeps_no_start_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    with hanging_disk(monkeypatch), pytest.raises(ConfigurationError) as raised:
        Login.open(LoginSettings("PLAIN", "sidecar", Secret(file=file)))
    assert str(raised.value) == f"{file}: cannot be read: no answer within 0.05 s"


async def test_no_password_goes_over_a_leg_without_keys_unless_that_is_written_down() -> None:
    came = []

    async def listen(stream: trio.SocketStream) -> None:
        came.append(await stream.receive_some(100))

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, listen, 0)
        address = Address("127.0.0.1", listeners[0].socket.getsockname()[1])
        broker = Broker(address, login=login("PLAIN", in_plaintext=False))
        with pytest.raises(ProtocolError, match=r"names\.security\.protocol is SASL_SSL"):
            await response_of(broker, 3, range(4, 5), lambda _: b"question")
        nursery.cancel_scope.cancel()
    assert came in ([], [b""])
