"""Who may take over from whom, on every way into a hand-over, and what is said to those who may not."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from lab.host.processes import Process, wait_until
from proxy.config.settings_values import Address
from proxy.errors import ConfigurationError
from proxy.handover.messages import SCHEMA, Hello, Listening, Offer, Ready
from proxy.handover.new_process import inherit
from proxy.handover.refusals import refuse_hello, refuse_listeners, refuse_process

from .old_server import BROKER, socket_path
from .test_new_process import LIMIT_SECONDS, answering
from .test_processes import STEP_SECONDS, Sidecar

if TYPE_CHECKING:
    from proxy.handover.channel import Channel
    from proxy.handover.messages import Message
    from proxy.handover.refusals import Listener

CODE = "from operating.cli import main; main()"
INGRESS = ("ingress.listen", Address("0.0.0.0", 9092))
ANY_PORT = ("ingress.listen", Address("127.0.0.1", 0))
PEER = ("egress.peers[1].listen", Address("127.0.103.1", 9092))
PAGES = ("http.listen", Address("127.0.0.1", 9404))


@pytest.mark.parametrize(
    ("hello", "told"),
    [
        (Hello(SCHEMA, BROKER), None),
        (Hello(SCHEMA + 1, BROKER), f"schema {SCHEMA}, found schema {SCHEMA + 1}: stop the running sidecar, then"),
        (Hello(SCHEMA, 102), "broker 101, found one of broker 102: a sidecar of another cluster needs a [control] dir"),
        (Ready(), "expected Hello, found Ready"),
    ],
)
def test_who_asks(hello: Message, told: str | None) -> None:
    found = refuse_hello(hello, broker=BROKER)
    assert found is None if told is None else told in str(found)


@pytest.mark.parametrize(
    ("old", "new", "is_refused"),
    [(1, None, True), (1, 7, True), (1, 0, False), (7, None, False), (7, 8, False), (0, 8, False)],
    ids=["its child", "beside it", "of another container", "a child", "beside another", "from another container"],
)
def test_process_1_ends_its_container(old: int, new: int | None, *, is_refused: bool) -> None:
    assert ("start a second container" in str(refuse_process(old, new))) == is_refused


@pytest.mark.parametrize(
    ("old", "new", "missing"),
    [
        ([INGRESS, PEER, PAGES], [INGRESS, PEER], None),
        ([INGRESS, PEER], [INGRESS, ("egress.peers[0].listen", PEER[1])], None),
        ([INGRESS], [INGRESS, PEER], None),
        ([ANY_PORT], [ANY_PORT], None),
        ([INGRESS, PEER], [INGRESS], "127.0.103.1:9092 (egress.peers[1].listen)"),
        ([INGRESS], [("ingress.listen", Address("0.0.0.0", 9192))], "0.0.0.0:9092 (ingress.listen)"),
        ([ANY_PORT], [("egress.listen", ANY_PORT[1])], "127.0.0.1:0 (ingress.listen)"),
    ],
)
def test_every_listener_of_brokers_is_served_on(old: list[Listener], new: list[Listener], missing: str | None) -> None:
    found = refuse_listeners(old, new)
    assert found is None if missing is None else missing in str(found)
    assert missing is None or "[control] directory of its own" in str(found)


async def test_a_sidecar_of_another_cluster_does_not_end_the_one_that_runs(nursery: trio.Nursery) -> None:
    """Two clusters on one host, each with a broker 101: the second start said that --take-over replaces a running one,
    and who followed that ended the other cluster's sidecar."""
    path, closed = socket_path(), trio.Event()

    async def offer(channel: Channel) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            await channel.send(Offer([Listening(INGRESS[0], *INGRESS[1])], []), [listening.fileno()])
        with pytest.raises(EOFError):  # it is not ready
            await channel.receive()
        closed.set()

    with trio.fail_after(LIMIT_SECONDS):
        await nursery.start(partial(answering, path, offer, ends=True))
        with pytest.raises(ConfigurationError, match=r"0.0.0.0:9092 \(ingress.listen\).*\[control\] directory"):
            await inherit(path, BROKER, [("ingress.listen", Address("127.0.0.1", 9192))])
        await closed.wait()


class Contained(Sidecar):
    """A sidecar that is process 1 of its namespace, as in a container."""

    async def start_first(self) -> Process:
        run = [sys.executable, "-c", CODE, "run", "--config", str(self.folder / "proxy.toml")]
        command = ["unshare", "--pid", "--fork", "--kill-child", *run]
        process = Process("sidecar", command, output=self.output)
        self.processes.append(process)
        process.start()
        await self.logged("started")
        return process

    def first_pid(self) -> int:
        """Of the first process, as this namespace numbers it."""
        parent = self.processes[0].pid
        return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])


async def test_beside_process_1_nothing_takes_over_and_it_serves_on(tmp_path: Path) -> None:
    """`taken_over` was logged, and then the kernel ended the new process with the container. By SIGUSR2 it was refused,
    with words that led to the other way."""
    sidecar = Contained(tmp_path)
    await sidecar.configure(leader=9, quota=1)
    try:
        first = await sidecar.start_first()
        beside = ["nsenter", "--target", str(sidecar.first_pid()), "--pid", sys.executable, "-c", CODE]
        command = [*beside, "run", "--take-over", "--config", str(tmp_path / "proxy.toml")]
        refused = await trio.run_process(command, check=False, capture_stderr=True)
        assert refused.returncode == 1
        assert b"start a second container in the same network namespace" in refused.stderr
        os.kill(sidecar.first_pid(), signal.SIGUSR2)
        await wait_until(
            lambda: bool(sidecar.events("handover_refused")),
            process=first, what="it refuses", timeout_seconds=STEP_SECONDS,
        )  # fmt: skip
        assert sidecar.events("handover_started") == []
        assert first.running
        assert json.dumps(sidecar.events("handover_refused")[0]).count("start a second container") == 1
    finally:
        await sidecar.end()
