"""Client quotas in the sidecar as a process has it: from quotas.toml to the connection, and to the pages."""

from __future__ import annotations

import gzip
import json
import re
import struct
import subprocess
import sys
import urllib.request
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
from click.testing import CliRunner

from lab.host.addresses import held_ports
from operating.cli import cli
from protocol.wire.apis import API_FETCH, API_PRODUCE
from protocol.wire.framing import with_length
from proxy.config.settings import load_settings
from tests.proxy.clients.frames import (
    fetch_request,
    fetch_response,
    parsed_fetch,
    produce_request,
    produce_response,
    told_ms,
)
from tests.proxy.relay.wire import read_frame

from .test_sidecar import listener, port, running, settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

API_KEY = struct.Struct(">h")


def write(folder: Path, rate: str) -> None:
    (folder / "new").write_text(f"[clients.default]\nproducer_byte_rate = {rate}\n")
    (folder / "new").rename(folder / "quotas.toml")


async def got(port_: int, page: str) -> bytes:
    def ask() -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{port_}{page}", timeout=10) as answer:
            content: bytes = answer.read()
            return content

    return await trio.to_thread.run_sync(ask)


async def accept_client(upstream: trio.SocketListener) -> trio.SocketStream:
    """Return the connection of the client, whose request has been read; the sidecar's own questions come on another."""
    while True:
        broker = await upstream.accept()
        (api_key,) = API_KEY.unpack_from(await read_frame(broker))
        if api_key in (API_PRODUCE, API_FETCH):
            return broker
        await broker.aclose()


@pytest.mark.parametrize("rate", ['"100MB/s"', '"unlimited"'])
async def test_a_new_file_ends_a_mute_and_pages_show_the_client(
    rate: str, tmp_path: Path, notified_within: float
) -> None:
    write(tmp_path, "1000")
    with held_ports(1) as (http,):
        async with (
            listener() as upstream,
            running(settings(tmp_path, upstream=port(upstream), http=http)) as sidecar,
            await sidecar.dial() as client,
        ):
            await client.send_all(with_length(produce_request(61_000)))
            broker = await accept_client(upstream)
            await broker.send_all(with_length(produce_response()))
            assert 60_000 < told_ms(await read_frame(client)) < 61_000  # one request that is larger than `max_throttle`
            page: dict[str, Any] = json.loads(await got(http, "/throttle"))
            assert [(each["kind"], each["entity"], each["quota_bytes_per_second"]) for each in page["clients"]] == [
                ("producer", "app", 1000.0),
                ("producer", "default", 1000.0),
            ]
            config = json.loads(await got(http, "/config"))["effective_quotas"]["clients"]
            assert config["producer_byte_rate"] == {"default": 1000.0}, config
            metrics = (await got(http, "/metrics")).decode()
            name = 'replication_throttle_client_bytes_total{entity="app",kind="producer"} '
            assert f"{name}61000.0" in metrics
            assert 'replication_throttle_client_limit_bytes_per_second{entity="app",kind="producer"} 1000.0' in metrics
            await client.send_all(with_length(produce_request(1000)))
            write(tmp_path, rate)
            with trio.fail_after(notified_within):
                await read_frame(broker)
            await broker.aclose()
    changed = [line for line in sidecar.log.lines if line["event"] == "quotas_reloaded"]
    assert "producer_byte_rate" in changed[-1]["changed"]


@asynccontextmanager
async def a_producer(tmp_path: Path) -> AsyncIterator[tuple[trio.SocketStream, trio.SocketStream]]:
    """Both ends of a producer's connection through a sidecar that commands reach."""
    write(tmp_path, '"unlimited"')
    async with listener() as upstream:
        path = settings(tmp_path, upstream=port(upstream)).path
        path.write_text(path.read_text() + f'[control]\ndirectory = "{tmp_path / "control"}"\n')
        async with (
            running(load_settings(path), overrides=tmp_path / "overrides.json") as sidecar,
            await sidecar.dial() as client,
        ):
            await client.send_all(with_length(produce_request(100)))
            async with await accept_client(upstream) as broker:
                await broker.send_all(with_length(produce_response()))
                assert told_ms(await read_frame(client)) == 0
                yield client, broker


async def by_command_line(*arguments: str) -> str:
    done = await trio.run_process(
        [Path(sys.executable).with_name("throttle-sidecar"), *arguments], capture_stdout=True, stderr=subprocess.STDOUT
    )
    return done.stdout.decode()


async def in_process(*arguments: str) -> str:
    result = await trio.to_thread.run_sync(partial(CliRunner().invoke, cli, arguments))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("command", [in_process, by_command_line])
async def test_set_undo_and_status_say_who_still_waits(
    command: Callable[..., Awaitable[str]], tmp_path: Path, notified_within: float
) -> None:
    """A rate without its unit: its end takes it back, but a client that was told to wait does so, until it sends."""
    at = ("--url", f"unix:{tmp_path / 'control'}")
    async with a_producer(tmp_path) as (client, broker):
        said = await command("set", "producer_byte_rate", "1000", "--client", "app", "--for", "10m", *at)
        assert "Was a unit forgotten?" in said
        assert "connections wait" not in said
        await client.send_all(with_length(produce_request(61_000)))
        await read_frame(broker)
        await broker.send_all(with_length(produce_response()))
        assert told_ms(await read_frame(client)) > 59_000
        waits = re.compile(r"client app as a producer.*, 1 of 1 connections wait, since \d+s, \S+s more at most")
        assert waits.search(await command("status", "--once", *at))
        assert waits.search(await command("set", "producer_byte_rate", "900", "--client", "app", *at))
        assert waits.search(await command("undo", "--last", *at))
        assert "(its quota has ended), 1 of 1 connections wait" in await command("undo", "--last", *at)
        assert waits.search(await command("status", "--once", *at))
        await client.send_all(with_length(produce_request(1000)))
        with trio.fail_after(notified_within):
            await read_frame(broker)
        assert "connections wait" not in await command("status", "--once", *at)


async def test_the_journal_tells_what_clients_carried(tmp_path: Path) -> None:
    write(tmp_path, "1000")
    journal = tmp_path / "journal"
    async with listener() as upstream:
        path = settings(tmp_path, upstream=port(upstream)).path
        path.write_text(path.read_text() + f'[journal]\ndirectory = "{journal}"\n')
        async with running(load_settings(path)) as sidecar, await sidecar.dial() as client:
            await client.send_all(with_length(produce_request(61_000)))
            async with await accept_client(upstream):
                pass
    texts = [gzip.decompress(file.read_bytes()) for file in journal.glob("*.ndjson.gz")]
    lines = [json.loads(line) for text in texts for line in text.splitlines()]
    (told,) = [line for line in lines if line["kind"] == "client"]
    assert (told["entity"], told["traffic"], told["client_bytes"]) == ("app", "producer", 61_000)
    assert 0 < told["muted_seconds"] < 60  # as much of it as passed until the client left


async def test_a_rate_of_the_listener_mutes_a_consumer_until_the_file_lifts_it(
    tmp_path: Path, notified_within: float
) -> None:
    (tmp_path / "quotas.toml").write_text("[listener]\nrate = 1000\n")
    with held_ports(1) as (http,):
        async with (
            listener() as upstream,
            running(settings(tmp_path, upstream=port(upstream), http=http)) as sidecar,
            await sidecar.dial() as client,
        ):
            await client.send_all(with_length(fetch_request()))
            broker = await accept_client(upstream)
            await broker.send_all(with_length(fetch_response(200_000)))
            told = int(parsed_fetch(await read_frame(client)).throttle_time_ms)
            assert told > 10_000, told
            assert json.loads(await got(http, "/throttle"))["listener_bytes_per_second"] == 1000.0
            assert json.loads(await got(http, "/config"))["effective_quotas"]["listener_bytes_per_second"] == 1000.0
            await client.send_all(with_length(fetch_request()))
            (tmp_path / "new").write_text('[listener]\nrate = "unlimited"\n')
            (tmp_path / "new").rename(tmp_path / "quotas.toml")
            with trio.fail_after(notified_within):
                await read_frame(broker)
            await broker.aclose()
    changed = [line for line in sidecar.log.lines if line["event"] == "quotas_reloaded"]
    assert "listener_bytes_per_second" in changed[-1]["changed"]
