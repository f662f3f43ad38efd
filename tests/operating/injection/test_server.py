"""The webhook over real TLS: reviews answered, certificate and addition renewed while it runs, wrong files said."""

from __future__ import annotations

import json
import ssl
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
import trio

from lab.brokers.authority import Authority
from operating.injection.server import INJECT, Webhook, WebhookSettings
from proxy.config.settings_values import Address
from proxy.errors import ConfigurationError
from proxy.threads import NoThreadError
from tests.proxy.recorded_log import RecordedLog

from .pods import addition_json, pod
from .test_reviews import review

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PATIENT_SECONDS = 10.0


class Running:
    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "authority")
        self.identity = self.authority.issue("webhook.pem", ["127.0.0.1"])
        self.addition = folder / "addition.json"
        self.addition.write_text(json.dumps(addition_json()))
        self.log = RecordedLog()
        self.webhook: Webhook | None = None

    def make(self) -> Webhook:
        settings = WebhookSettings(Address("127.0.0.1", 0), self.identity, self.identity, self.addition)
        self.webhook = Webhook(settings, self.log)
        return self.webhook

    async def connect(self) -> trio.SSLStream[trio.SocketStream]:
        assert self.webhook is not None
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        plain = await trio.open_tcp_stream(*self.webhook.address)
        stream = trio.SSLStream(plain, context, server_hostname="127.0.0.1", https_compatible=True)
        await stream.do_handshake()
        return stream

    async def ask(self, body: bytes, *, method: str = "POST", path: str = INJECT) -> tuple[int, dict[str, Any]]:
        stream = await self.connect()
        head = f"{method} {path} HTTP/1.1\r\nhost: throttle-webhook.kafka.svc\r\ncontent-length: {len(body)}\r\n"
        with trio.fail_after(PATIENT_SECONDS):
            await stream.send_all(head.encode() + b"connection: close\r\n\r\n" + body)
            answer = bytearray()
            while received := await stream.receive_some():
                answer += received
        await stream.aclose()
        said, _, content = bytes(answer).partition(b"\r\n\r\n")
        return int(said.split()[1]), json.loads(content) if content.startswith(b"{") else {}

    async def serial(self) -> int:
        """Of the certificate that it presents."""
        stream = await self.connect()
        certificate: dict[str, Any] = stream.getpeercert()
        await stream.aclose()
        return int(certificate["serialNumber"], 16)

    async def heard(self, event: str) -> None:
        with trio.fail_after(PATIENT_SECONDS):
            while event not in self.log.events:  # noqa: ASYNC110 - it looks at its files by itself
                await trio.sleep(0.05)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Running]:
    found = Running(folder)
    async with trio.open_nursery() as nursery:
        await nursery.start(found.make().run)
        yield found
        nursery.cancel_scope.cancel()


async def test_reviews_are_answered_and_told(tmp_path: Path) -> None:
    async with running(tmp_path) as found:
        status, said = await found.ask(review(pod()))
        assert (status, said["response"]["allowed"]) == (200, True)
        assert said["response"]["patch"]
        status, said = await found.ask(review(pod(hostNetwork=True)))
        assert (status, said["response"]["allowed"]) == (200, False)
        assert [line["event"] for line in found.log.lines] == ["webhook_started", "pod_injected", "pod_refused"]
        assert found.log.lines[1]["pod"] == "kafka/kafka-0"


async def test_bad_requests_cost_no_more_than_their_connection(tmp_path: Path) -> None:
    async with running(tmp_path) as found:
        assert (await found.ask(b"{}"))[0] == 400
        assert (await found.ask(b"", method="GET"))[0] == 405
        assert (await found.ask(b"", method="GET", path="/healthz"))[0] == 200
        assert found.webhook is not None
        for bad in (b"GET /healthz HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b""):
            async with await trio.open_tcp_stream(*found.webhook.address) as plain:
                await plain.send_all(bad)
                await plain.send_eof()
                with trio.fail_after(PATIENT_SECONDS), suppress(trio.BrokenResourceError):
                    while await plain.receive_some():
                        pass
        assert (await found.ask(review(pod())))[0] == 200


async def test_a_renewed_certificate_is_presented_without_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as found:
        before = await found.serial()
        found.authority.issue("webhook.pem", ["127.0.0.1"])
        await found.heard("webhook_file_read")
        assert await found.serial() != before


async def test_a_wrong_file_is_said_and_the_last_good_one_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path) as found:
        found.addition.write_text('{"pods": ["kafka-7"], "spec": {}}')
        await found.heard("webhook_file_refused")
        (line,) = [line for line in found.log.lines if line["event"] == "webhook_file_refused"]
        assert "initContainers" in line["error"]
        assert (await found.ask(review(pod())))[1]["response"]["patch"]
        found.addition.write_text(json.dumps({**addition_json(), "pods": ["kafka-7"]}))
        await found.heard("webhook_file_read")
        assert "expected one of kafka-7" in (await found.ask(review(pod())))[1]["response"]["status"]["message"]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda found: found.identity.unlink(), "webhook.pem: cannot be read: No such file"),
        (lambda found: found.identity.write_text("no PEM"), "no certificate with its key, in PEM"),
        (lambda found: found.addition.write_text("{"), "addition.json: Input data was truncated"),
        (lambda found: found.addition.write_text('{"pods":[],"spec":{"initContainers":[{}]}}'), "[0].name: expected"),
        (
            lambda found: found.addition.write_text('{"pods": [], "spec": {"initContainers": [{"name": "a"}]}}'),
            "expected one with the name throttle-sidecar",
        ),
    ],
)
def test_wrong_files_are_an_error_at_start(tmp_path: Path, spoil: Any, why: str) -> None:
    found = Running(tmp_path)
    spoil(found)
    with pytest.raises(ConfigurationError) as caught:
        found.make()
    assert why in str(caught.value)


async def test_without_a_thread_the_last_good_files_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_thread(*_: object, **__: object) -> None:
        await trio.lowlevel.checkpoint()
        raise NoThreadError("can't start new thread")

    async with running(tmp_path) as found:
        with monkeypatch.context() as patched:
            patched.setattr("operating.injection.server.in_thread", no_thread)
            await found.heard("webhook_file_refused")
            assert (await found.ask(review(pod())))[0] == 200
        await found.heard("webhook_file_read")
        told = [line for line in found.log.lines if line["event"] == "webhook_file_refused"]
        assert {line["error"] for line in told} == {"could not be looked at: can't start new thread"}
        assert len(told) == 2
