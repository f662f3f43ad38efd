"""An operator's mishaps with keys and with ways around: named while they last, and nothing once they are mended."""

from __future__ import annotations

import ssl
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from lab.brokers.authority import Authority
from protocol.metadata import Links
from protocol.wire.framing import with_length
from proxy.cluster import kafka_throttle, questions
from proxy.diagnostics import quota_diagnostics
from proxy.observing import quota_checks
from proxy.roles import Role
from proxy.tls import leg
from tests.proxy.conversation import fetch_frame

from .test_conditions import SOON, _soon, names, until_named
from .test_sidecar import TWO, listener, port, running, settings, write_quotas
from .test_tls import NAME, contexts
from .test_tls import settings as tls_settings

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from .test_sidecar import Running

__all__ = ["_soon"]


async def test_a_follower_with_keys_of_another_authority_is_named_until_it_has_the_right_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leg, "FAILS_SECONDS", SOON)
    (tmp_path / "strange").mkdir()
    ours, strange = Authority(tmp_path), Authority(tmp_path / "strange")
    for each in (ours, strange):
        each.issue("own.pem", [NAME])
    write_quotas(tmp_path, '"1MiB/s"')
    async with listener() as leader, running(tls_settings(tmp_path, port(leader))) as sidecar:
        await until_named(sidecar)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(dials_again_and_again, sidecar, strange))
            with trio.fail_after(20):
                while await names(sidecar) != ["tls_handshakes_fail"]:  # noqa: ASYNC110
                    await trio.sleep(0.02)
            nursery.cancel_scope.cancel()
        await until_named(sidecar)


async def dials_again_and_again(sidecar: Running, authority: Authority) -> None:
    """As a broker does whose keys were made by another authority."""
    context = contexts(authority)[1]
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    while True:
        with suppress(trio.BrokenResourceError, OSError):
            async with trio.SSLStream(await sidecar.dial(), context, server_hostname=NAME) as stream:
                await stream.do_handshake()
                await stream.receive_some(1)
        await trio.sleep(SOON / 10)


async def test_one_follower_of_two_that_goes_around_is_named_until_it_comes_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """21.5 MB in 0.4 s went past a quota of 1 MiB/s, and nothing said so: bypass was judged all or none."""

    async def links(_: object, topics: object, __: object) -> object:
        await trio.lowlevel.checkpoint()
        if topics is not None:
            raise OSError("not asked here")
        return Links(followers=frozenset({102, 103}))

    monkeypatch.setattr(questions, "ask_metadata", links)
    monkeypatch.setattr(questions.LinkQuestion, "least_pause_seconds", 0.05)
    monkeypatch.setattr(quota_checks, "CONNECT_SECONDS", 0.0)
    monkeypatch.setattr(quota_checks, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(quota_diagnostics, "MISSING_SECONDS", 2 * SOON)
    write_quotas(tmp_path, '"1MiB/s"')
    async with (
        listener() as leader,
        running(settings(tmp_path, upstream=port(leader))) as sidecar,
        await sidecar.dial() as first,
    ):
        await first.send_all(with_length(fetch_frame(TWO, replica_id=102)))
        await until_named(sidecar, "bypassed")
        (line,) = [each for each in sidecar.log.lines if each["event"] == "condition_raised"]
        assert "103" in line["text"]
        assert "102" not in line["text"]
        async with await sidecar.dial() as second:
            await second.send_all(with_length(fetch_frame(TWO, replica_id=103)))
            await until_named(sidecar)


async def test_a_throttle_of_kafkas_own_is_named_where_it_is_the_lower_one_until_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was left behind held the move at its rate, beside a quota that said another."""
    configs = {kafka_throttle.KEYS[Role.LEADER]: "524288", kafka_throttle.KEYS[Role.FOLLOWER]: "9999999"}

    async def describe(*_: object) -> object:
        await trio.lowlevel.checkpoint()
        return dict(configs)

    monkeypatch.setattr(kafka_throttle, "ask_broker", describe)
    monkeypatch.setattr(kafka_throttle.KafkaThrottleQuestion, "least_pause_seconds", 0.05)
    monkeypatch.setattr(quota_checks, "CONNECT_SECONDS", 0.0)
    write_quotas(tmp_path, '"1MiB/s"')
    async with listener() as leader, running(settings(tmp_path, upstream=port(leader))) as sidecar:
        await until_named(sidecar, "kafka_throttle_lower")
        (line,) = [each for each in sidecar.log.lines if each["event"] == "condition_raised"]
        key = "leader.replication.throttled.rate"
        rates = "is 512.00 KiB/s (524288 B/s), lower than the quota of 1.00 MiB/s (1048576 B/s)"
        remove = f"--alter --entity-type brokers --entity-name 101 --delete-config {key}"
        assert line["text"] == f"Kafka's own {key} of this broker {rates}: kafka-configs --bootstrap-server … {remove}"
        configs[key] = str(1 << 20)
        await until_named(sidecar)
        configs[key] = "0"
        await until_named(sidecar, "kafka_throttle_lower")
        configs.clear()
        await until_named(sidecar)
