"""Name servers that hang, that answer, and that know nothing; the threads are real."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
import trio

from proxy.network.connection_setup import LOOKUP_THREADS, NameLookups
from proxy.quota_files.reload import QuotaWatch
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DIALS = 60
QUOTAS = """
[brokers.default]
leader.replication.throttled.rate = {rate}
leader.replication.throttled.replicas = "*"
"""


class NameServer:
    """Answers nobody before `release` is called."""

    def __init__(self) -> None:
        self.asked = 0
        self.at_work = 0
        self.most_at_work = 0
        self._turn = threading.Lock()
        self._answers = threading.Event()

    def lookup(self, *asked: object) -> list[Any]:
        with self._turn:
            self.asked += 1
            self.at_work += 1
            self.most_at_work = max(self.most_at_work, self.at_work)
        self._answers.wait(30.0)
        with self._turn:
            self.at_work -= 1
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    def release(self) -> None:
        self._answers.set()


@pytest.fixture
def hanging() -> Iterator[NameServer]:
    made = NameServer()
    yield made
    made.release()


async def dial(name: str) -> None:
    with pytest.raises(OSError, match="no answer"):
        await trio.open_tcp_stream(name, 9092)


async def test_lookups_that_hang_delay_no_change_of_quotas_and_no_other_thread(
    hanging: NameServer, tmp_path: Path
) -> None:
    trio.socket.set_custom_hostname_resolver(NameLookups(hanging.lookup))
    path = tmp_path / "quotas.toml"
    path.write_text(QUOTAS.format(rate=1000))
    watch = QuotaWatch.open(path, broker_id=1, log=RecordedLog())
    async with trio.open_nursery() as nursery:
        for index in range(DIALS):
            nursery.start_soon(dial, f"broker-{index}.test")
        with trio.fail_after(30):
            while hanging.at_work < LOOKUP_THREADS:  # noqa: ASYNC110 - threads have no event
                await trio.sleep(0.01)
        path.write_text(QUOTAS.format(rate=2000))
        with trio.fail_after(30):
            await watch.reload("test")
            await trio.to_thread.run_sync(path.read_bytes)
        assert watch.current.leader.bytes_per_second == 2000
        assert hanging.asked == LOOKUP_THREADS
        hanging.release()
    assert (hanging.asked, hanging.most_at_work) == (DIALS, LOOKUP_THREADS)


async def test_who_waits_for_a_name_can_be_cancelled(hanging: NameServer) -> None:
    trio.socket.set_custom_hostname_resolver(NameLookups(hanging.lookup))
    with trio.fail_after(30), trio.move_on_after(0.05) as scope:
        await trio.open_tcp_stream("broker.test", 9092)
    assert scope.cancelled_caught


async def test_names_are_looked_up_as_the_system_does() -> None:
    trio.socket.set_custom_hostname_resolver(NameLookups())
    (found, *_) = await trio.socket.getaddrinfo("localhost", 9092, socket.AF_INET, socket.SOCK_STREAM)
    assert found[4] == ("127.0.0.1", 9092)
    numeric = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
    assert await trio.socket.getnameinfo(("127.0.0.1", 9092), numeric) == ("127.0.0.1", "9092")


async def test_want_of_a_thread_is_a_name_that_cannot_be_looked_up_now(no_threads: None) -> None:
    """Whoever connects or listens handles that as an error of the network's, and so has nothing more to handle."""
    trio.socket.set_custom_hostname_resolver(NameLookups())
    with pytest.raises(socket.gaierror, match="can't start new thread") as raised:
        await trio.open_tcp_stream("broker.test", 9092)
    assert raised.value.errno == socket.EAI_AGAIN
