"""A sidecar in this process, attended by victims: two followers in sync whose every byte is checked, one for each role.

`Uses` does all that a sidecar is there for, as often as it is asked to: connections that come and go, are held, name
topics that nobody knows; every page; quotas that change by file, by signal, over HTTP and by the clock.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import trio

from fuzz.cases import known_frames
from fuzz.scenes.fetches import fetch
from fuzz.stage.hostile_leader import empty_answer
from protocol.wire.apis import API_METADATA, API_VERSIONS
from protocol.wire.framing import with_length
from protocol.wire.headers import peek_request
from proxy.config.settings import load_settings
from proxy.control.directory import control_path, short_path
from proxy.quota_files.reload import QuotaWatch
from proxy.serving.serve import serve
from proxy.statistics.counters import Statistics

from .api_versions import metadata_to
from .conversation import fetch_frame
from .metadata_broker import metadata, topic
from .recorded_log import RecordedLog
from .relay.wire import T0, read_all, read_exactly, read_frame
from .serving.test_sidecar import listener, port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from proxy.config.settings import Address

TOKEN = "t0ken-of-thirty-two-characters-aa"
SETTINGS = """
[broker]
id = 101
[ingress]
listen = "127.0.0.1:0"
upstream = "127.0.0.1:{leader}"
[egress]
mode = "peers"
[[egress.peers]]
broker = 102
listen = "127.0.0.1:0"
upstream = "127.0.0.1:{leader}"
[quotas]
file = "quotas.toml"
[http]
listen = "127.0.0.1:0"
token_file = "token"
[control]
directory = "control"
[journal]
directory = "journal"
[limits]
max_memory = "64GiB"  # this process has what all tests before have left
idle_timeout = "48h"
"""
QUOTAS = """
[brokers.default]
leader.replication.throttled.rate = {rate}
follower.replication.throttled.rate = 0
[topics.t]
leader.replication.throttled.replicas = "*"
follower.replication.throttled.replicas = "*"
[topics.victim]
leader.replication.throttled.replicas = "*"
follower.replication.throttled.replicas = "*"
[brokers.101]
follower.replication.throttled.rate = 1000
until = {until}
"""
DOORS = {"ingress.listen": 3, "egress.peers[0].listen": 12}
"""Where victims fetch, and by which version."""
CORRELATION_ID = slice(4, 8)
FIRST_FLEXIBLE_VERSION = 12
PATIENT_SECONDS = 600.0
LOOK_SECONDS = 1.2
"""What a sidecar does once a second, it has done."""


@dataclass
class Victim:
    """A follower in sync, at one door."""

    stream: trio.SocketStream
    version: int
    ids: count[int] = field(default_factory=lambda: count(1))

    async def fetches(self) -> None:
        """Once. Raises AssertionError if it is cut off, or one byte is wrong."""
        number = next(self.ids)
        expected = known_frames.answer(self.version, number)
        with trio.fail_after(PATIENT_SECONDS):
            await self.stream.send_all(known_frames.request(self.version, number))
            assert await read_exactly(self.stream, len(expected)) == expected


async def lead(stream: trio.SocketStream) -> None:
    """Answers victims as they expect, others as a leader that has what nobody has fetched."""
    async with stream:
        with suppress(trio.BrokenResourceError):
            while len(prefix := await read_exactly(stream, 4)) == 4:
                await stream.send_all(_said(await read_exactly(stream, int.from_bytes(prefix))))


def _said(frame: bytes) -> bytes:
    head = peek_request(frame, 0, len(frame))
    assert head is not None
    if head.client_id == known_frames.CLIENT_ID:
        return known_frames.answer(head.api_version, head.correlation_id)
    if head.api_key == API_VERSIONS:
        return metadata_to(13)
    if head.api_key == API_METADATA:
        return with_length(metadata(head.api_version, [topic("t", 1, 0)], {101: None}))
    tags = b"\0" if head.api_version >= FIRST_FLEXIBLE_VERSION else b""
    return with_length(frame[CORRELATION_ID] + tags + empty_answer(frame))


class Uses:
    """`once`: everything. Whoever meets a fault is cut off, its own affair; `served` are those that were not."""

    def __init__(self, addresses: dict[str, Address], folder: Path) -> None:
        self.served: dict[str, int] = {}
        self._addresses, self._folder = addresses, folder
        self._numbers = count(1)

    async def dial(self, key: str = "ingress.listen") -> trio.SocketStream:
        sock = trio.socket.socket()
        try:
            await sock.connect(self._addresses[key])
        except BaseException:
            sock.close()
            raise
        return trio.SocketStream(sock)

    async def once(self) -> None:
        acts = (
            self._come_and_go,
            self._be_held,
            self._name_nobody_knows,
            self._visit,
            self._ask_privately,
            self._put,
            self._edit,
        )
        async with trio.open_nursery() as nursery:
            for act in acts:
                nursery.start_soon(self._try, act)
        os.kill(os.getpid(), signal.SIGHUP)
        await trio.sleep(LOOK_SECONDS)

    async def _try(self, act: Callable[[], Awaitable[None]]) -> None:
        with trio.move_on_after(PATIENT_SECONDS), suppress(OSError, trio.BrokenResourceError, AssertionError):
            await act()
            self.served[act.__name__] = self.served.get(act.__name__, 0) + 1

    async def _come_and_go(self) -> None:
        """A follower that is behind, is held for a moment, and goes."""
        async with await self.dial() as follower:
            for wait in (0, 500):
                await follower.send_all(with_length(fetch_frame({T0: 0}, max_wait_ms=wait)))
                await read_frame(follower)

    async def _be_held(self) -> None:
        """It goes while it is held."""
        async with await self.dial("egress.peers[0].listen") as follower:
            await follower.send_all(with_length(fetch_frame({T0: 0}, max_wait_ms=0)))
            await read_frame(follower)
            await follower.send_all(with_length(fetch_frame({T0: 0}, max_wait_ms=10_000)))
            with trio.move_on_after(1):
                await read_frame(follower)

    async def _name_nobody_knows(self) -> None:
        async with await self.dial() as follower:
            await follower.send_all(fetch(13, [(next(self._numbers).to_bytes(16), 1)]))
            await read_frame(follower)

    async def _visit(self) -> None:
        for method, path in (
            ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics"), ("GET", "/throttle"), ("GET", "/config"),
            ("POST", "/-/reload"),
        ):  # fmt: skip
            said = await self._ask(method, path)
            assert said[9:12] == b"200", f"{method} {path}: {said[:200]!r}"

    async def _ask_privately(self) -> None:
        """As a command on the same host does, at control.sock."""
        with short_path(control_path(self._folder / "control")) as path:
            stream = await trio.open_unix_socket(path)  # connected: the short name is not needed any more
        async with stream:
            await stream.send_all(b"GET /overrides HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            said = await read_all(stream)
        assert said[9:12] == b"200", said[:200]

    async def _put(self) -> None:
        rate = {"place": "broker", "key": "follower.replication.throttled.rate", "value": next(self._numbers)}
        for path, body in (("/overrides", {"changes": [rate]}), ("/overrides/undo", {"last": True})):
            said = await self._ask("POST", path, json.dumps(body))
            assert said[9:12] == b"200", f"{path}: {said[:200]!r}"

    async def _edit(self) -> None:
        fresh = self._folder / "quotas.new"
        fresh.write_text(self._quotas())
        fresh.rename(self._folder / "quotas.toml")
        await trio.lowlevel.checkpoint()

    def _quotas(self) -> str:
        return quotas(next(self._numbers))

    async def _ask(self, method: str, path: str, body: str = "", more: str = "") -> bytes:
        async with await self.dial("http.listen") as stream:
            head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{more}"
            head += f"Authorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
            await stream.send_all(head.encode() + body.encode())
            return await read_all(stream)


def quotas(number: int) -> str:
    """Return another file each time, one section of which ends soon."""
    until = datetime.now(UTC) + timedelta(seconds=2)
    return QUOTAS.format(rate=1000 + number, until=until.isoformat())


@dataclass
class Attended:
    uses: Uses
    victims: list[Victim]
    log: RecordedLog

    async def fetch(self) -> None:
        """Once for each victim."""
        for victim in self.victims:
            await victim.fetches()


@asynccontextmanager
async def attended(folder: Path) -> AsyncIterator[Attended]:
    """A sidecar with victims who have been served, until the block ends; what ends it is raised."""
    (folder / "quotas.toml").write_text(quotas(0))
    (folder / "token").write_text(TOKEN)
    (folder / "token").chmod(0o600)
    path, log = folder / "proxy.toml", RecordedLog()
    async with listener() as leader, trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, lead, [leader])
        path.write_text(SETTINGS.format(leader=port(leader)))
        of = load_settings(path)
        watch = QuotaWatch.open(of.quotas.file, broker_id=101, log=log)
        addresses = await nursery.start(partial(serve, of, watch, statistics=Statistics(), log=log))
        found = Attended(Uses(addresses, folder), [], log)
        try:
            for door, version in DOORS.items():
                found.victims.append(Victim(await found.uses.dial(door), version))
            await found.fetch()
            yield found
        finally:
            for victim in found.victims:
                await trio.aclose_forcefully(victim.stream)
        nursery.cancel_scope.cancel()
